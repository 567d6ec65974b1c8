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
  EXPECT_EQ(steady->blocks.microbatches, 1u);
  EXPECT_EQ(steady->period, 5);
  EXPECT_TRUE(isWhole(program, *steady));
  // Device 0 forwards four microbatches ahead: from its first backward on, forwards and backwards take turns.
  EXPECT_EQ(steady->blocks.devices[0].length, 2u);
  EXPECT_EQ(program.ops[steady->blocks.devices[0].first], (Op{OpKind::Backward, 0, 0, 0}));
}

// The longest cycle of waits goes from the first device to the last and back, with as many microbatches in
// flight as there are devices.
TEST(Steady, ManyMicrobatchesWithTransfers) {
  const Program program = oneFOneB(4, 64);
  auto steady = steadyOf(program, withTransfers(program, 2, 3, 1));
  ASSERT_TRUE(steady);
  EXPECT_EQ(steady->blocks.microbatches, 4u);
  EXPECT_EQ(steady->period, 4 * 5 + 2 * 3 * 1);
  EXPECT_TRUE(isWhole(program, *steady));
}

TEST(Steady, ASlowStageSetsThePace) {
  const Program program = oneFOneB(4, 64);
  CostModel costs = withTransfers(program, 2, 3, 1);
  costs.forward = StageTable<int64_t>({2, 2, 40, 2});
  auto steady = steadyOf(program, costs);
  ASSERT_TRUE(steady);
  EXPECT_EQ(steady->blocks.microbatches, 1u);
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
    const RepeatedOps &part = steady.blocks.devices[device];
    ASSERT_GE(part.first, program.deviceBegin[device]);
    ASSERT_LE(part.end, program.deviceBegin[device + 1]);
    ASSERT_GE(part.end - part.first, 2 * part.length);
    for (OpId id = part.first + part.length; id < part.end; ++id) {
      Op moved = program.ops[id - part.length];
      if (moved.microbatch != noMicrobatch)
        moved.microbatch += steady.blocks.microbatches;
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
    ofSeveral += steady && steady->blocks.microbatches > 1;
    none += !steady;
  }
  // The schedules are of all three sorts.
  EXPECT_GT(found, 500u);
  EXPECT_GT(ofSeveral, 100u);
  EXPECT_GT(none, 50u);
}

void expectSame(const MemoryFigures &figures, const MemoryFigures &expected) {
  ASSERT_EQ(figures.devices.size(), expected.devices.size());
  for (size_t d = 0; d < expected.devices.size(); ++d) {
    SCOPED_TRACE("device " + std::to_string(d));
    const DeviceMemory &a = figures.devices[d], &b = expected.devices[d];
    EXPECT_EQ(a.peakActivation, b.peakActivation);
    EXPECT_EQ(a.peakSaved, b.peakSaved);
    EXPECT_EQ(a.peakPending, b.peakPending);
    EXPECT_EQ(a.peakBytes, b.peakBytes);
    EXPECT_EQ(a.peakTime, b.peakTime);
    EXPECT_EQ(a.peakOp, b.peakOp);
    ASSERT_EQ(a.livePeak.size(), b.livePeak.size());
    for (size_t i = 0; i < b.livePeak.size(); ++i) {
      EXPECT_EQ(a.livePeak[i].kind, b.livePeak[i].kind);
      EXPECT_EQ(a.livePeak[i].stage, b.livePeak[i].stage);
      EXPECT_EQ(a.livePeak[i].count, b.livePeak[i].count);
      EXPECT_EQ(a.livePeak[i].bytes, b.livePeak[i].bytes);
    }
  }
  EXPECT_EQ(figures.inFlight, expected.inFlight);
}

void expectSame(const std::vector<DeviceTimes> &times, const std::vector<DeviceTimes> &expected) {
  ASSERT_EQ(times.size(), expected.size());
  for (size_t d = 0; d < expected.size(); ++d) {
    SCOPED_TRACE("device " + std::to_string(d));
    const DeviceTimes &a = times[d], &b = expected[d];
    EXPECT_EQ(a.busy, b.busy);
    EXPECT_EQ(a.useful, b.useful);
    EXPECT_EQ(a.idle, b.idle);
    EXPECT_EQ(a.fill, b.fill);
    EXPECT_EQ(a.drain, b.drain);
    EXPECT_EQ(a.stallTransfer, b.stallTransfer);
    EXPECT_EQ(a.imbalance, b.imbalance);
    EXPECT_EQ(a.stallUpstream, b.stallUpstream);
    EXPECT_EQ(a.spanBegin, b.spanBegin);
    EXPECT_EQ(a.spanEnd, b.spanEnd);
  }
}

TEST(Steady, FiguresAreThoseOfTheFullWalk) {
  unsigned repeated = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    const GreedySchedule greedy = greedySchedule(seed);
    const ProgramIndex index(greedy.program);
    Diagnostics diagnostics;
    auto timeline = simulate(greedy.program, index, greedy.costs, diagnostics);
    auto parts = repeatedParts(greedy.program, index, greedy.costs, steadyOf(greedy.program, greedy.costs));
    auto full = memoryFigures(greedy.program, index, greedy.costs, *timeline, diagnostics);
    auto brief = memoryFigures(greedy.program, index, greedy.costs, *timeline, diagnostics, nullptr,
                               parts ? &*parts : nullptr);
    expectSame(*brief, *full);
    expectSame(deviceTimes(greedy.program, index, greedy.costs, *timeline, parts ? &*parts : nullptr),
               deviceTimes(greedy.program, index, greedy.costs, *timeline));
    repeated += parts.has_value();
    if (HasFailure())
      break;
  }
  EXPECT_GT(repeated, 300u);
}

} // namespace
