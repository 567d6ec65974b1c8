#include "Timeline/Simulate.h"

#include "Schedules.h"

#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::test;

static std::optional<Timeline> timelineOf(const Program &program, const CostModel &costs) {
  Diagnostics diagnostics;
  auto timeline = simulate(program, ProgramIndex(program), costs, diagnostics);
  EXPECT_TRUE(diagnostics.findings().empty());
  return timeline;
}

// The slow model: ends rise from 0 by relaxing every prerequisite until nothing changes. It shares only the
// cost functions with simulate.
static int64_t transferTo(const CostModel &costs, const Op &op, const Op &producer) {
  if (producer.stage == op.stage)
    return 0;
  return op.kind == OpKind::Forward ? costs.activationTransfer.at(producer.stage, op.microbatch)
                                    : costs.gradientTransfer.at(producer.stage, op.microbatch);
}
static bool feeds(const Program &program, const Op &producer, const Op &op) {
  if (producer.microbatch != op.microbatch || !op.hasMicrobatch())
    return false;
  const bool sameStage = producer.stage == op.stage;
  const bool makesGradient = producer.kind == OpKind::Backward || producer.kind == OpKind::BackwardInput;
  switch (op.kind) {
  case OpKind::Forward:
    return producer.kind == OpKind::Forward && producer.stage + 1 == op.stage;
  case OpKind::Recompute:
    return producer.kind == OpKind::Forward && sameStage;
  case OpKind::BackwardWeight:
    return producer.kind == OpKind::BackwardInput && sameStage;
  default:
    return ((producer.kind == OpKind::Forward || producer.kind == OpKind::Recompute) && sameStage) ||
           (makesGradient && producer.stage == op.stage + 1 && producer.stage < program.stages);
  }
}
static std::vector<int64_t> slowEnds(const Program &program, const CostModel &costs) {
  std::vector<int64_t> ends(program.size(), 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (OpId first = 0; first < program.size(); first = program.groupEnd(first)) {
      const OpId after = program.groupEnd(first);
      const uint32_t device = program.deviceOf(first);
      int64_t start = first > program.deviceBegin[device] ? ends[first - 1] : 0;
      for (OpId op = first; op < after; ++op)
        for (OpId producer = 0; producer < program.size(); ++producer) {
          if (feeds(program, program.ops[producer], program.ops[op]))
            start =
                std::max(start, ends[producer] + transferTo(costs, program.ops[op], program.ops[producer]));
          // All calls of a reduction: the programs here have one a stage and device.
          if (program.ops[op].kind == OpKind::Reduce && program.ops[producer] == program.ops[op])
            start = std::max(start, ends[producer]);
        }
      const int64_t end = start + durationOfGroup(costs, &program.ops[first], after - first);
      for (OpId op = first; op < after; ++op) {
        changed |= ends[op] != end;
        ends[op] = end;
      }
    }
  }
  return ends;
}

TEST(Simulate, TakesThePublishedTimes) {
  for (const Program &program : {gpipe(4, 8), gpipe(4, 8, true), oneFOneB(4, 8), eagerOneFOneB(4, 8)})
    EXPECT_EQ(timelineOf(program, CostModel::ofTicks(4, 10, 10, 10))->makespan, 330) << program.name;
}

TEST(Simulate, WaitsForTransfers) {
  Program program = oneFOneB(4, 8);
  CostModel costs = CostModel::ofTicks(4, 1, 1, 0);
  setTransfers(program, costs, 2);
  EXPECT_EQ(timelineOf(program, costs)->makespan, 54);
}

TEST(Simulate, AgreesWithTheSlowModelOnRandomSchedules) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    RandomSchedule schedule(seed);
    Program program = schedule.build();
    CostModel costs = schedule.costs(program);
    auto timeline = timelineOf(program, costs);
    ASSERT_TRUE(timeline) << "seed " << seed;
    EXPECT_EQ(timeline->end, slowEnds(program, costs)) << "seed " << seed;
  }
}

TEST(Simulate, JointReductionEndsWhenAllCopiesHaveReachedIt) {
  // Stage 0 has a copy on each device: microbatch 0 on device 0, microbatches 1 and 2 on device 1.
  ScheduleBuilder builder("copies", {1, 3, 2});
  builder.place([](Stage, Microbatch m) { return m == 0 ? 0u : 1u; });
  for (uint32_t device : {0u, 1u})
    builder.program(device, [&](DeviceProgram &p) {
      for (uint32_t m = device; m < 1 + 2 * device; ++m)
        p.forward(0, m), p.backward(0, m);
      p.reduce();
      p.update();
    });
  Program program = builder.build();
  auto timeline = timelineOf(program, CostModel::ofTicks(1, 1, 1, 1));
  EXPECT_EQ(timeline->end, (std::vector<int64_t>{1, 3, 6, 6, 1, 3, 4, 6, 6, 6}));
}

TEST(Simulate, StuckProgramsHaveNoTimeline) {
  ScheduleBuilder cyclic("cyclic", {2, 2, 2});
  cyclic.place([](Stage s, Microbatch) { return s; });
  cyclic.program(0, [](DeviceProgram &p) { p.forward(0, 0), p.backward(0, 0), p.forward(0, 1); });
  cyclic.program(1, [](DeviceProgram &p) { p.forward(1, 1), p.forward(1, 0), p.backward(1, 0); });
  EXPECT_FALSE(timelineOf(cyclic.build(), CostModel::ofTicks(2)));

  ScheduleBuilder backwardFirst("backward_first", {1, 1, 1});
  backwardFirst.place([](Stage, Microbatch) { return 0; });
  backwardFirst.program(0, [](DeviceProgram &p) { p.backward(0, 0), p.forward(0, 0); });
  EXPECT_FALSE(timelineOf(backwardFirst.build(), CostModel::ofTicks(1)));

  ScheduleBuilder lonely("lonely_reduce", {1, 2, 2});
  lonely.place([](Stage, Microbatch m) { return m; });
  lonely.program(0, [](DeviceProgram &p) { p.forward(0, 0), p.reduce(); });
  lonely.program(1, [](DeviceProgram &p) { p.forward(0, 1); });
  EXPECT_FALSE(timelineOf(lonely.build(), CostModel::ofTicks(1)));
}

TEST(Simulate, OverlapTakesItsFusedDuration) {
  ScheduleBuilder builder("overlap", {1, 2, 1});
  builder.place([](Stage, Microbatch) { return 0; });
  builder.program(0, [](DeviceProgram &p) {
    p.forward(0, 0);
    p.overlap([&] { p.forward(0, 1), p.backward(0, 0); });
    p.backward(0, 1);
  });
  Program program = builder.build();
  CostModel costs = CostModel::ofTicks(1, 10, 10, 10);
  EXPECT_EQ(timelineOf(program, costs)->end, (std::vector<int64_t>{10, 40, 40, 60}));
  costs.overlapped[{0, 0}] = 24;
  auto fused = timelineOf(program, costs);
  EXPECT_EQ(fused->end, (std::vector<int64_t>{10, 34, 34, 54}));
  EXPECT_EQ(fused->start(program, costs, 2), 10);
}

TEST(Simulate, OverflowIsAFindingNotAWrap) {
  Program program = gpipe(2, 4);
  Diagnostics diagnostics;
  CostModel costs = CostModel::ofTicks(2, INT64_MAX / 4, 1, 1);
  EXPECT_FALSE(simulate(program, ProgramIndex(program), costs, diagnostics));
  ASSERT_EQ(diagnostics.findings().size(), 1u);
  EXPECT_EQ(diagnostics.findings().front().rule, Rule::ValueOutOfRange);

  // The largest times that still fit do, though their careless bound does not.
  costs = CostModel::ofTicks(2, INT64_MAX / 16, INT64_MAX / 16, 0);
  EXPECT_EQ(timelineOf(program, costs)->makespan, 10 * (INT64_MAX / 16));
}
