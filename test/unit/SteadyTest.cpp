// The steady state: found where it is, and what the timeline and its figures make of it is what the full run
// gives.
#include "Timeline/Steady.h"

#include "GreedySchedule.h"
#include "Schedules.h"
#include "Simulated.h"

using namespace sluice;
using namespace sluice::test;

namespace {

std::vector<int64_t> endsOf(const Program &program, const CostModel &costs) {
  Diagnostics diagnostics;
  auto timeline = simulate(program, ProgramIndex(program), costs, diagnostics);
  return timeline ? timeline->end : std::vector<int64_t>();
}

std::optional<Steady> steadyOf(const Program &program, const CostModel &costs) {
  Diagnostics diagnostics;
  auto timeline = simulate(program, ProgramIndex(program), costs, diagnostics);
  auto repetition = findRepetition(program);
  return repetition ? findSteady(program, *timeline, *repetition) : std::nullopt;
}

CostModel withTransfers(const Program &program, int64_t forward, int64_t backward, int64_t transfer) {
  CostModel costs = CostModel::ofTicks(program.stages, forward, 1, backward - 1);
  setTransfers(program, costs, transfer);
  return costs;
}

TEST(Steady, OneMicrobatchWithoutTransfers) {
  const Program program = oneFOneB(4, 32);
  auto steady = steadyOf(program, withTransfers(program, 2, 3, 0));
  ASSERT_TRUE(steady);
  EXPECT_EQ(steady->microbatches, 1u);
  EXPECT_EQ(steady->period, 5);
  EXPECT_TRUE(isWhole(program, *steady));
  // Device 0 forwards four microbatches ahead: from its first backward on, forwards and backwards take turns.
  EXPECT_EQ(steady->devices[0].length, 2u);
  EXPECT_EQ(program.ops[steady->devices[0].first], (Op{OpKind::Backward, 0, 0, 0}));
}

// The longest cycle of waits goes from the first device to the last and back, with as many microbatches in
// flight as there are devices.
TEST(Steady, ManyMicrobatchesWithTransfers) {
  const Program program = oneFOneB(4, 64);
  auto steady = steadyOf(program, withTransfers(program, 2, 3, 1));
  ASSERT_TRUE(steady);
  EXPECT_EQ(steady->microbatches, 4u);
  EXPECT_EQ(steady->period, 4 * 5 + 2 * 3 * 1);
  EXPECT_TRUE(isWhole(program, *steady));
}

TEST(Steady, ASlowStageSetsThePace) {
  const Program program = oneFOneB(4, 64);
  CostModel costs = withTransfers(program, 2, 3, 1);
  costs.forward = StageTable<int64_t>({2, 2, 40, 2});
  auto steady = steadyOf(program, costs);
  ASSERT_TRUE(steady);
  EXPECT_EQ(steady->microbatches, 1u);
  EXPECT_EQ(steady->period, 43);
}

TEST(Steady, HalfAStepIsNotWhole) {
  const Program program = gpipe(3, 40);
  auto steady = steadyOf(program, withTransfers(program, 2, 3, 1));
  ASSERT_TRUE(steady);
  EXPECT_FALSE(isWhole(program, *steady));
}

TEST(Steady, NothingRepeatsTwice) {
  const Program program = oneFOneB(4, 4);
  EXPECT_FALSE(steadyOf(program, withTransfers(program, 2, 3, 1)));
  // Backwards in the reversed order repeat with fewer microbatches each time, which is no step forward.
  const Program reversed = gpipe(2, 64, true);
  EXPECT_FALSE(steadyOf(reversed, withTransfers(reversed, 2, 3, 1)));
}

TEST(Steady, NoneWhereOneMicrobatchDiffers) {
  const Program program = oneFOneB(3, 40);
  CostModel costs = withTransfers(program, 2, 3, 0);
  StageTable<int64_t> forward;
  for (uint32_t m = 0; m < 40; ++m)
    forward.addMicrobatch({2 + (m % 7 == 0), 2, 2 + (m * m) % 5});
  forward.finish();
  costs.forward = forward;
  EXPECT_FALSE(steadyOf(program, costs));
}

/// By the definition, op by op.
void expectRepeats(const Program &program, const std::vector<int64_t> &ends, const Steady &steady) {
  ASSERT_GT(steady.period, 0);
  for (uint32_t device = 0; device < program.devices; ++device) {
    const RepeatedOps &part = steady.devices[device];
    ASSERT_GE(part.first, program.deviceBegin[device]);
    ASSERT_LE(part.end, program.deviceBegin[device + 1]);
    ASSERT_GE(part.end - part.first, 2 * part.length);
    for (OpId id = part.first + part.length; id < part.end; ++id) {
      Op moved = program.ops[id - part.length];
      if (moved.microbatch != noMicrobatch)
        moved.microbatch += steady.microbatches;
      ASSERT_EQ(program.ops[id], moved);
      ASSERT_EQ(ends[id] - ends[id - part.length], steady.period);
    }
  }
}

TEST(Steady, TheTimelineIsThatOfTheFullRun) {
  unsigned found = 0, ofSeveral = 0, none = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    const GreedySchedule greedy = greedySchedule(seed);
    const CostModel spelled = spelledOut(greedy.costs, greedy.program.microbatches);
    const std::vector<int64_t> ends = endsOf(greedy.program, spelled);
    ASSERT_FALSE(ends.empty());
    ASSERT_EQ(endsOf(greedy.program, greedy.costs), ends);
    auto steady = steadyOf(greedy.program, greedy.costs);
    if (steady)
      expectRepeats(greedy.program, ends, *steady);
    found += steady.has_value();
    ofSeveral += steady && steady->microbatches > 1;
    none += !steady;
  }
  // The schedules are of all three sorts.
  EXPECT_GT(found, 500u);
  EXPECT_GT(ofSeveral, 100u);
  EXPECT_GT(none, 50u);
}

} // namespace
