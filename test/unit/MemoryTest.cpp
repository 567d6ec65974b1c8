#include "Timeline/Memory.h"

#include "Schedules.h"
#include "Simulated.h"

using namespace sluice;
using namespace sluice::test;

// The slow account of memory: what is live in every interval between two events, added up item by item.
static int64_t slowPeak(const Program &program, const CostModel &costs, const Timeline &timeline,
                        uint32_t device) {
  struct Piece {
    int64_t begin, end, bytes;
  };
  std::vector<Piece> pieces;
  ProgramIndex index(program);
  auto start = [&](OpId op) { return timeline.start(program, costs, op); };
  for (uint32_t s = 0; s < program.stages; ++s)
    for (uint32_t m = 0; m < program.microbatches; ++m) {
      const OpId forward = index.forward(s, m), backward = index.backward(s, m);
      const OpId recompute = index.recompute(s, m), weight = index.weightHalf(s, m);
      if (program.deviceOf(s, m) != device)
        continue;
      const int64_t activation = costs.activation.at(s, m), pending = costs.pending.at(s, m);
      const int64_t boundary = costs.boundary.at(s, m);
      OpId saver = forward;
      if (recompute != noOp) {
        const int64_t input = costs.keptInput.at(s, m);
        const bool grows = activation > input;
        pieces.push_back({start(forward), grows ? start(recompute) : timeline.end[recompute], input});
        pieces.push_back(
            {grows ? start(recompute) : timeline.end[recompute], timeline.end[recompute], activation});
        saver = recompute;
      }
      const int64_t saved = recompute == noOp ? start(saver) : timeline.end[saver];
      if (weight == noOp)
        pieces.push_back({saved, timeline.end[backward], activation});
      else {
        const int64_t turn = pending > activation ? start(backward) : timeline.end[backward];
        pieces.push_back({saved, turn, activation});
        pieces.push_back({turn, timeline.end[weight], pending});
      }
      if (s + 1 == program.stages)
        pieces.push_back({start(forward), timeline.end[backward], boundary});
      else if (program.deviceOf(s + 1, m) != device)
        pieces.push_back({timeline.end[index.backward(s + 1, m)], timeline.end[backward], boundary});
      if (s > 0 && program.deviceOf(s - 1, m) != device)
        pieces.push_back(
            {timeline.end[index.forward(s - 1, m)], start(forward), costs.boundary.at(s - 1, m)});
    }
  int64_t peak = 0;
  for (const Piece &at : pieces) {
    int64_t live = 0;
    for (const Piece &piece : pieces)
      if (piece.begin <= at.begin && at.begin < piece.end)
        live += piece.bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

TEST(Memory, AgreesWithTheSlowAccountOnRandomSchedules) {
  for (unsigned seed = 3000; seed < 3400; ++seed) {
    RandomSchedule schedule(seed);
    Program program = schedule.build();
    CostModel costs = schedule.costs(program);
    // Ops without a duration are live for no time at all, yet need their memory: leave them out here.
    for (auto *table :
         {&costs.forward, &costs.backward, &costs.backwardInput, &costs.backwardWeight, &costs.recompute}) {
      StageTable<int64_t> longer;
      for (uint32_t m = 0; m < program.microbatches; ++m) {
        std::vector<int64_t> row;
        for (uint32_t s = 0; s < program.stages; ++s)
          row.push_back(table->at(s, m) + 1);
        longer.addMicrobatch(row);
      }
      longer.finish();
      *table = std::move(longer);
    }
    const Simulated simulated(program, costs);
    for (uint32_t device = 0; device < program.devices; ++device) {
      const DeviceMemory &memory = simulated.figures.memory.devices[device];
      EXPECT_EQ(memory.peakBytes, slowPeak(program, costs, simulated.timeline, device)) << "seed " << seed;
      int64_t listed = 0;
      for (const LiveItem &item : memory.livePeak)
        listed += item.bytes;
      EXPECT_EQ(listed, memory.peakBytes) << "seed " << seed;
    }
  }
}

TEST(Memory, SlotsOfSplitBackwardsAndWhatIsLiveAtThePeak) {
  ScheduleBuilder builder("split", {1, 2, 1});
  builder.place([](Stage, Microbatch) { return 0; });
  builder.program(0, [](DeviceProgram &p) {
    p.forward(0, 0), p.forward(0, 1);
    p.backwardInput(0, 0), p.backwardInput(0, 1);
    p.backwardWeight(0, 0), p.backwardWeight(0, 1);
  });
  CostModel costs = CostModel::ofTicks(1);
  costs.isDefault = false;
  auto of = [](int64_t bytes) { return StageTable<int64_t>({bytes}); };
  costs.activation = of(100);
  costs.pending = of(130);
  costs.boundary = of(7);
  costs.weights = {1000};
  costs.workspace = {5};
  costs.reserved = {50};
  DeviceMemory memory = figuresOf(builder.build(), costs).memory.devices[0];
  EXPECT_EQ(memory.peakActivation, 2u);
  EXPECT_EQ(memory.peakSaved, 2u);
  EXPECT_EQ(memory.peakPending, 2u);
  // During the second input half: 130 twice, its output's gradient, workspace and statics.
  EXPECT_EQ(memory.peakBytes, 1000 + 50 + 260 + 7 + 5);
  EXPECT_EQ(memory.peakTime, 3);
  ASSERT_EQ(memory.livePeak.size(), 5u);
  EXPECT_EQ(memory.livePeak[0].kind, LiveKind::Weights);
  EXPECT_EQ(memory.livePeak[1].kind, LiveKind::Pending);
  EXPECT_EQ(memory.livePeak[1].count, 2u);
  EXPECT_EQ(memory.livePeak[2].kind, LiveKind::Reserved);
}

TEST(Memory, KeepNothingHoldsTheReceivedActivationToTheEnd) {
  auto build = [](Keep keep) {
    ScheduleBuilder builder("evaluation", {2, 1, 2});
    builder.place([](Stage s, Microbatch) { return s; });
    builder.program([=](DeviceProgram &p, Device d) { p.forward(d, 0, keep); });
    return builder.build();
  };
  CostModel costs = CostModel::ofTicks(2);
  costs.isDefault = false;
  costs.boundary = StageTable<int64_t>({16, 3});
  costs.activation = StageTable<int64_t>({1, 1});
  EXPECT_EQ(figuresOf(build(Keep::Nothing), costs).memory.devices[1].peakBytes, 16 + 3);
  costs.activation = StageTable<int64_t>({20, 20});
  EXPECT_EQ(figuresOf(build(Keep::All), costs).memory.devices[1].peakBytes, 20 + 3);
}

TEST(Memory, OverflowIsAFinding) {
  Program program = gpipe(2, 2);
  CostModel costs = CostModel::ofTicks(2);
  costs.isDefault = false;
  costs.activation = StageTable<int64_t>({INT64_MAX / 2 + 1, 1});
  ProgramIndex index(program);
  Diagnostics diagnostics;
  auto timeline = simulate(program, index, costs, diagnostics);
  EXPECT_FALSE(computeFigures(program, index, costs, *timeline, diagnostics));
  ASSERT_EQ(diagnostics.findings().size(), 1u);
  EXPECT_EQ(diagnostics.findings()[0].rule, Rule::ValueOutOfRange);
}
