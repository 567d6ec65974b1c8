// Where communication is placed, and how many slots a schedule gets.
#include "InMemory.h"
#include "Schedules.h"

#include "Passes/LowerCommunication.h"
#include "Timeline/Memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::test;

namespace {

std::vector<std::string> written(const Program &program, uint32_t device) {
  std::vector<std::string> lines;
  for (OpId op = program.deviceBegin[device]; op < program.deviceBegin[device + 1]; ++op)
    lines.push_back(str(program, op));
  return lines;
}

/// Runs sends and receives that block under rendezvous; true if every device reaches its end.
bool completesUnderRendezvous(const ExecutorTables &tables) {
  std::vector<size_t> at(tables.devices.size());
  auto front = [&](uint32_t device) -> const runtime::Instruction * {
    const auto &rows = tables.devices[device].rows;
    while (at[device] < rows.size() && rows[at[device]].op < runtime::Op::SendActivation)
      ++at[device];
    return at[device] < rows.size() ? &rows[at[device]] : nullptr;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t sender = 0; sender < tables.devices.size(); ++sender) {
      const runtime::Instruction *send = front(sender);
      if (!send || !isSend(send->op))
        continue;
      const uint32_t receiver = tables.channels[send->b].to;
      const runtime::Instruction *receive = front(receiver);
      if (!receive || !isReceive(receive->op) || receive->b != send->b)
        continue;
      EXPECT_EQ(send->microbatch, receive->microbatch);
      EXPECT_EQ(receive->stage, send->op == runtime::Op::SendActivation ? send->stage + 1 : send->stage - 1);
      ++at[sender];
      ++at[receiver];
      moved = true;
    }
  }
  for (uint32_t device = 0; device < tables.devices.size(); ++device)
    if (front(device))
      return false;
  return true;
}

std::vector<uint32_t> saveds(const ExecutorTables &tables) {
  std::vector<uint32_t> counts;
  for (const DeviceTable &device : tables.devices)
    counts.push_back(device.saveds);
  return counts;
}
std::vector<uint32_t> pendings(const ExecutorTables &tables) {
  std::vector<uint32_t> counts;
  for (const DeviceTable &device : tables.devices)
    counts.push_back(device.pendings);
  return counts;
}
using Counts = std::vector<uint32_t>;

} // namespace

TEST(AssignSlots, PlacesEarly) {
  const Program program = oneFOneB(2, 2);
  const auto placed = lowerCommunication(program, ProgramIndex(program), CommunicationPlacement::Early);
  ASSERT_TRUE(placed);
  EXPECT_EQ(written(*placed, 0),
            (std::vector<std::string>{"forward(0, 0)", "send_activation(0, 0)", "forward(0, 1)",
                                      "send_activation(0, 1)", "recv_gradient(0, 0)", "backward(0, 0)",
                                      "recv_gradient(0, 1)", "backward(0, 1)", "reduce(0)", "update(0)"}));
  EXPECT_EQ(written(*placed, 1),
            (std::vector<std::string>{"recv_activation(1, 0)", "forward(1, 0)", "recv_activation(1, 1)",
                                      "backward(1, 0)", "send_gradient(1, 0)", "forward(1, 1)",
                                      "backward(1, 1)", "send_gradient(1, 1)", "reduce(1)", "update(1)"}));
}

TEST(AssignSlots, CompletesUnderRendezvousWithOneOrderOnBothSides) {
  for (const TestCase &test : allCases())
    EXPECT_TRUE(completesUnderRendezvous(lower(test.program))) << test.name;
}

TEST(AssignSlots, GivesNothingForACyclicOrder) {
  ScheduleBuilder builder("cyclic", {2, 2, 2});
  builder.place([](Stage s, Microbatch) { return Device(s); });
  builder.program(0, [](DeviceProgram &p) {
    p.forward(0, 0);
    p.backward(0, 0);
    p.forward(0, 1);
    p.backward(0, 1);
  });
  builder.program(1, [](DeviceProgram &p) {
    p.forward(1, 0);
    p.forward(1, 1);
    p.backward(1, 0);
    p.backward(1, 1);
  });
  EXPECT_FALSE(assignSlots(builder.build(), CostModel::ofTicks(2)));
}

TEST(AssignSlots, StagesOnOneDeviceHandOverWithoutMessages) {
  const ExecutorTables tables = lower(listScheduled(Shape::V, 1, 3, false, 1));
  EXPECT_TRUE(tables.channels.empty());
  for (const runtime::Instruction &row : tables.devices[0].rows)
    EXPECT_FALSE(isSend(row.op) || isReceive(row.op));
}

TEST(AssignSlots, SavedAreAsManyAsLiveAtOnce) {
  EXPECT_EQ(saveds(lower(gpipe(4, 8))), (Counts{8, 8, 8, 8}));
  EXPECT_EQ(saveds(lower(oneFOneB(4, 8))), (Counts{4, 3, 2, 1}));
  EXPECT_EQ(saveds(lower(oneFOneB(4, 2))), (Counts{2, 2, 2, 1}));
  EXPECT_EQ(saveds(lower(recomputing(4, 8))), (Counts{1, 1, 1, 1}));
  EXPECT_EQ(saveds(lower(evaluation(4, 8))), (Counts{0, 0, 0, 0}));
  EXPECT_EQ(pendings(lower(oneFOneB(4, 8))), (Counts{0, 0, 0, 0}));
  EXPECT_EQ(pendings(lower(zbH1(4, 8))), (Counts{1, 2, 3, 4}));
  // An overlap holds what its forward saves beside what its backward reads.
  EXPECT_EQ(saveds(lower(overlapped(3, 8))), (Counts{6, 4, 2}));
}

TEST(AssignSlots, SavedAndPendingAreTheFiguresOfTheTimeline) {
  for (const TestCase &test : allCases()) {
    const ExecutorTables tables = lower(test.program);
    const CostModel costs = CostModel::ofTicks(test.program.stages);
    const ProgramIndex index(test.program);
    Diagnostics diagnostics;
    const auto timeline = simulate(test.program, index, costs, diagnostics);
    ASSERT_TRUE(timeline) << test.name;
    const auto figures = memoryFigures(test.program, index, costs, *timeline, diagnostics);
    ASSERT_TRUE(figures) << test.name;
    for (uint32_t device = 0; device < test.program.devices; ++device) {
      EXPECT_EQ(tables.devices[device].saveds, figures->devices[device].peakSaved)
          << test.name << " " << device;
      EXPECT_EQ(tables.devices[device].pendings, figures->devices[device].peakPending)
          << test.name << " " << device;
    }
  }
}

TEST(AssignSlots, AllForwardHoldsOutputsAndOneSeed) {
  // One device: the input of a forward beside all outputs, then a seed beside them; nothing is sent.
  EXPECT_EQ(lower(gpipe(1, 8)).devices[0].boundaries, 9u);
}

TEST(AssignSlots, LossFactorsFollowTheGradientContract) {
  const Program program = gpipe(2, 3);
  CostModel costs = CostModel::ofTicks(2);
  auto factors = [&] {
    std::vector<std::pair<int64_t, int64_t>> result;
    for (const LossFactor &factor : lossFactors(program, costs))
      result.emplace_back(factor.numerator, factor.denominator);
    return result;
  };
  using Fractions = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(factors(), (Fractions{{1, 3}, {1, 3}, {1, 3}}));
  costs.samples = {5, 2, 1};
  EXPECT_EQ(factors(), (Fractions{{5, 8}, {2, 8}, {1, 8}}));
  costs.replicas = 2;
  EXPECT_EQ(factors(), (Fractions{{5, 16}, {2, 16}, {1, 16}}));
  costs.loss = "mean over microbatches";
  EXPECT_EQ(factors(), (Fractions{{1, 6}, {1, 6}, {1, 6}}));
  costs.loss = "sum";
  EXPECT_EQ(factors(), (Fractions{{5, 1}, {2, 1}, {1, 1}}));
}

TEST(AssignSlots, AccumulatorsAreScaledBeforeTheNormSeesThem) {
  ScheduleBuilder builder("clipped", {2, 2, 2});
  builder.place([](Stage s, Microbatch) { return Device(s); });
  builder.program([](DeviceProgram &p, Device d) {
    for (uint32_t m = 0; m < 2; ++m)
      p.forward(d, m);
    for (uint32_t m = 0; m < 2; ++m)
      p.backward(d, m);
    p.norm();
    p.update();
  });
  CostModel costs = CostModel::ofTicks(2);
  for (const auto scaling : {TrainingTerms::Scaling::Accumulator, TrainingTerms::Scaling::Reduced}) {
    costs.scaling = scaling;
    const ExecutorTables tables = assignSlots(builder.build(), costs).value();
    for (const DeviceTable &device : tables.devices) {
      ASSERT_GE(device.rows.size(), 3u);
      const auto last = std::span(device.rows).last<3>();
      EXPECT_EQ(last[0].op, runtime::Op::Scale);
      EXPECT_EQ(last[1].op, runtime::Op::Norm);
      EXPECT_EQ(last[2].op, runtime::Op::Update);
    }
  }
}
