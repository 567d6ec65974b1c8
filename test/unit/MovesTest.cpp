// What takes time beside compute ops, by hand: shared links, blocking transfers, collectives, moves to and
// from the host, and where the time of a device goes then.
#include "Passes/LowerCommunication.h"
#include "Passes/OverlapCollectives.h"
#include "Schedules.h"
#include "Simulated.h"
#include "Timeline/Slack.h"
#include "Timeline/Transfers.h"

#include <array>

using namespace sluice;
using namespace sluice::test;

namespace {

/// Stage 0 works on device 0 for microbatch 0 and on device 1 for microbatch 1, stage 1 on device 2.
Program twoSenders() {
  ScheduleBuilder builder("two_senders", {2, 2, 3});
  builder.place([](Stage s, Microbatch m) { return s == 0 ? m : 2u; });
  builder.program(0, [](DeviceProgram &p) { p.forward(0, 0); });
  builder.program(1, [](DeviceProgram &p) { p.forward(0, 1); });
  builder.program(2, [](DeviceProgram &p) { p.forward(1, 0), p.forward(1, 1); });
  return builder.build();
}

/// Forwards of 10; every message takes 2 and then 6, on one lane.
CostModel sharedLink(Sharing sharing) {
  CostModel costs = CostModel::ofTicks(2, 10, 10, 10);
  costs.activationTransfer = StageTable<int64_t>({8, 0});
  costs.gradientTransfer = StageTable<int64_t>({0, 8});
  costs.activationRoute = StageTable<uint32_t>({0, noRoute});
  costs.gradientRoute = StageTable<uint32_t>({noRoute, 0});
  costs.links = {{"net", sharing, {}}};
  costs.routes = {{0, sharing == Sharing::No ? noLane : 0, 2}};
  costs.laneCount = sharing == Sharing::No ? 0 : 1;
  return costs;
}

std::vector<std::array<int64_t, 3>> messagesOf(const Simulated &run) {
  std::vector<std::array<int64_t, 3>> messages;
  forEachTransfer(run.program, run.index, run.costs, run.timeline, [&](const Transfer &transfer) {
    messages.push_back({transfer.ready, transfer.begin, transfer.end});
  });
  return messages;
}

} // namespace

TEST(Moves, FifoLinkCarriesOneAfterTheOther) {
  const Simulated run(twoSenders(), sharedLink(Sharing::Fifo));
  // The latency does not occupy the link: the second begins at 16, not at 18.
  EXPECT_EQ(messagesOf(run), (std::vector<std::array<int64_t, 3>>{{10, 10, 18}, {10, 16, 24}}));
  EXPECT_EQ(run.timeline.end, (std::vector<int64_t>{10, 10, 28, 38}));
  EXPECT_TRUE(slacks(run.program, run.index, run.costs, run.timeline).empty());
}

TEST(Moves, FairLinkCarriesBothAtHalfItsSpeed) {
  const Simulated run(twoSenders(), sharedLink(Sharing::Fair));
  EXPECT_EQ(messagesOf(run), (std::vector<std::array<int64_t, 3>>{{10, 10, 24}, {10, 10, 24}}));
  EXPECT_EQ(run.timeline.end, (std::vector<int64_t>{10, 10, 34, 44}));
}

TEST(Moves, UnsharedLinkDelaysNothing) {
  const Simulated run(twoSenders(), sharedLink(Sharing::No));
  EXPECT_EQ(messagesOf(run), (std::vector<std::array<int64_t, 3>>{{10, 10, 18}, {10, 10, 18}}));
  EXPECT_TRUE(run.timeline.arrived.empty());
}

TEST(Moves, QueueingForALinkIsAStall) {
  // Device 1 sends what device 0 sends as well; device 2 is done with the first before the second is there.
  CostModel costs = sharedLink(Sharing::Fifo);
  costs.forward = StageTable<int64_t>({10, 1});
  const Simulated run(twoSenders(), costs);
  EXPECT_EQ(run.timeline.end, (std::vector<int64_t>{10, 10, 19, 25}));
  EXPECT_EQ(run.figures.times[2].stallTransfer, 5);
  EXPECT_EQ(run.figures.times[2].fill, 18);
}

TEST(Moves, SharedLinkUnderWrittenCommunication) {
  const Program inferred = twoSenders();
  const Program written =
      *lowerCommunication(inferred, ProgramIndex(inferred), CommunicationPlacement::Early);
  for (uint32_t depth : {0u, 1u, ChannelRules::unbounded}) {
    CostModel costs = sharedLink(Sharing::Fifo);
    costs.channels.depth = depth;
    const Simulated run(written, costs);
    // Device 2 stands at its first receive until 18: only then, under rendezvous, is the second message
    // ready.
    const int64_t second = depth == 0 ? 18 : 10, begins = depth == 0 ? 18 : 16;
    EXPECT_EQ(messagesOf(run),
              (std::vector<std::array<int64_t, 3>>{{10, 10, 18}, {second, begins, begins + 8}}))
        << depth;
  }
}

TEST(Moves, BlockingTransfersOccupyBothDevices) {
  ScheduleBuilder builder("two", {2, 2, 2});
  builder.place([](Stage s, Microbatch) { return s; });
  builder.program([](DeviceProgram &p, Device d) { p.forward(d, 0), p.forward(d, 1); });
  const Program inferred = builder.build();
  CostModel costs = sharedLink(Sharing::No);
  costs.transfersBlock = true;
  costs.channels.depth = 3; // what the file says of channels does not count
  const Simulated run(*lowerCommunication(inferred, ProgramIndex(inferred), CommunicationPlacement::Early),
                      costs);
  // forward 0-10, send 10-18, forward 18-28, send 28-36; recv 10-18, forward 18-28, recv 28-36, forward 36-46
  EXPECT_EQ(run.timeline.end, (std::vector<int64_t>{10, 18, 28, 36, 18, 28, 36, 46}));
  EXPECT_EQ(run.timeline.start(run.program, run.costs, 4), 10);
  for (const DeviceTimes &times : run.figures.times) {
    EXPECT_EQ(times.busy, 36);
    EXPECT_EQ(times.useful, 20);
    EXPECT_EQ(times.stallTransfer, 0);
  }
  EXPECT_EQ(run.figures.times[0].drain, 10 + 0);
  EXPECT_EQ(run.figures.times[1].fill, 10);
  EXPECT_EQ(run.figures.critical.transfer, 16);
}

TEST(Moves, StartedReductionIsUnderWayBesideCompute) {
  ScheduleBuilder builder("beside", {2, 1, 1});
  builder.place([](Stage, Microbatch) { return 0; });
  builder.program(0, [](DeviceProgram &p) {
    p.forward(0, 0), p.forward(1, 0), p.backward(1, 0);
    p.reduce(1), p.started();
    p.backward(0, 0);
    p.reduce(0); // behind reduce(1) in the queue of the device
    p.reduce(1), p.waited();
    p.update();
  });
  CostModel costs = CostModel::ofTicks(2, 10, 5, 5);
  costs.reduce = {20, 15};
  costs.update = {4, 3};
  const Simulated run(builder.build(), costs);
  const Timeline &timeline = run.timeline;
  EXPECT_EQ(timeline.end, (std::vector<int64_t>{10, 20, 30, 30, 40, 65, 65, 69, 72}));
  EXPECT_EQ(timeline.met[3], 30);
  EXPECT_EQ(timeline.done[3], 45);
  EXPECT_EQ(timeline.start(run.program, run.costs, 5), 45);
  EXPECT_EQ(run.figures.times[0].busy, 40 + 20 + 7);
  EXPECT_EQ(run.figures.times[0].drain, 5);
  EXPECT_EQ(slacks(run.program, run.index, run.costs, timeline),
            (std::vector<int64_t>{0, 0, 0, 0, 5, 0, 0, 0, 0}));
  EXPECT_EQ(run.figures.critical.compute + run.figures.critical.transfer, 72);
  EXPECT_EQ(run.figures.critical.transfer, 35);
}

TEST(Moves, JointReductionBeginsWhenAllHaveCome) {
  ScheduleBuilder builder("copies", {1, 3, 2});
  builder.place([](Stage, Microbatch m) { return m == 0 ? 0u : 1u; });
  builder.program([](DeviceProgram &p, Device d) {
    for (uint32_t m = d; m < 1 + 2 * d; ++m)
      p.forward(0, m), p.backward(0, m);
    p.reduce();
    p.update();
  });
  CostModel costs = CostModel::ofTicks(1, 1, 1, 1);
  costs.reduce = {7};
  const Simulated run(builder.build(), costs);
  EXPECT_EQ(run.timeline.end, (std::vector<int64_t>{1, 3, 13, 13, 1, 3, 4, 6, 13, 13}));
  EXPECT_EQ(run.timeline.start(run.program, run.costs, 2), 6);
  EXPECT_EQ(run.figures.times[0].busy, 3 + 7);
  EXPECT_EQ(run.figures.times[0].drain, 3);
}

TEST(Moves, HostLaneQueues) {
  ScheduleBuilder builder("offload", {1, 3, 1});
  builder.place([](Stage, Microbatch) { return 0; });
  builder.program(0, [](DeviceProgram &p) {
    p.forward(0, 0);
    p.offload(0, 0), p.started();
    p.forward(0, 1);
    p.offload(0, 1);
    p.forward(0, 2);
    p.offload(0, 0), p.waited();
  });
  CostModel costs = CostModel::ofTicks(1, 10, 10, 10);
  costs.offload = costs.reload = StageTable<int64_t>({20});
  costs.links = {{"host", Sharing::Fifo, {}}};
  costs.hostRoutes = {{0, 0, 1}, {0, 1, 1}};
  costs.laneCount = 2;
  const Simulated fifo(builder.build(), costs);
  // 10 to 29 on the lane; the second from there on, then its latency.
  EXPECT_EQ(fifo.timeline.end, (std::vector<int64_t>{10, 10, 20, 49, 59, 59}));
  EXPECT_EQ(fifo.timeline.done[1], 30);
  EXPECT_EQ(fifo.timeline.start(fifo.program, fifo.costs, 3), 29);
  EXPECT_EQ(fifo.figures.times[0].busy, 30 + 20);
  EXPECT_EQ(fifo.figures.times[0].stallTransfer, 9);

  costs.links[0].sharing = Sharing::Fair;
  const Simulated fair(builder.build(), costs);
  // Alone until 20, where 9 are left; in halves until 38; the second has 10 left.
  EXPECT_EQ(fair.timeline.done[1], 39);
  EXPECT_EQ(fair.timeline.end, (std::vector<int64_t>{10, 10, 20, 49, 59, 59}));
  EXPECT_EQ(fair.timeline.start(fair.program, fair.costs, 3), 20);
  EXPECT_EQ(fair.figures.times[0].busy, 30 + 29);
}

TEST(Moves, OverlappedReductionsAreWaitedForWhereNeeded) {
  ScheduleBuilder builder("overlapped", {2, 1, 1});
  builder.place([](Stage, Microbatch) { return 0; });
  builder.program(0, [](DeviceProgram &p) {
    p.forward(0, 0), p.forward(1, 0), p.backward(1, 0);
    p.reduce(1);
    p.backward(0, 0);
    p.reduce(0);
    p.update(1);
    p.norm();
  });
  const Program program = overlapCollectives(builder.build());
  std::string text;
  for (OpId op = 0; op < program.size(); ++op)
    text += str(program, op) + "; ";
  EXPECT_EQ(text, "forward(0, 0); forward(1, 0); backward(1, 0); start reduce(1); backward(0, 0); start "
                  "reduce(0); wait reduce(1); update(1); wait reduce(0); norm; ");
  CostModel costs = CostModel::ofTicks(2, 10, 5, 5);
  costs.reduce = {20, 15};
  EXPECT_EQ(Simulated(program, costs).timeline.makespan, 65);
  EXPECT_EQ(Simulated(builder.build(), costs).timeline.makespan, 75);
}

TEST(Moves, OverflowIsAFinding) {
  for (Sharing sharing : {Sharing::No, Sharing::Fifo, Sharing::Fair}) {
    CostModel costs = sharedLink(sharing);
    costs.forward = StageTable<int64_t>({INT64_MAX - 5, 1});
    const Program program = twoSenders();
    Diagnostics diagnostics;
    EXPECT_FALSE(simulate(program, ProgramIndex(program), costs, diagnostics));
    ASSERT_EQ(diagnostics.findings().size(), 1u);
    EXPECT_EQ(diagnostics.findings().front().rule, Rule::ValueOutOfRange);
  }
}
