// Binding chains and what is read off them: the critical path, slack, and the split of long gaps.
#include "Schedules.h"
#include "Simulated.h"
#include "Timeline/BindingTree.h"
#include "Timeline/Slack.h"

using namespace sluice;
using namespace sluice::test;

static Simulated randomOne(unsigned seed, std::optional<int64_t> transfer = std::nullopt) {
  RandomSchedule schedule(seed);
  Program program = schedule.build();
  CostModel costs = schedule.costs(program);
  if (transfer)
    setTransfers(program, costs, *transfer);
  return Simulated(std::move(program), std::move(costs));
}

TEST(Chains, CriticalPathIsUnbrokenAndAsLongAsTheMakespan) {
  for (unsigned seed = 2000; seed < 2300; ++seed) {
    const Simulated random = randomOne(seed);
    const auto &[program, costs, index, timeline, figures] = random;
    auto path = criticalPath(program, index, costs, timeline);
    ASSERT_FALSE(path.empty());
    EXPECT_EQ(path.back().end, timeline.makespan) << "seed " << seed;
    CriticalSummary summary = summarize(path);
    EXPECT_EQ(summary.compute + summary.transfer, timeline.makespan) << "seed " << seed;
    int64_t reached = 0;
    for (const CriticalStep &step : path) {
      EXPECT_EQ(step.start, reached + step.transfer) << "seed " << seed;
      EXPECT_EQ(step.end, timeline.end[step.op]);
      reached = step.end;
    }
  }
}

/// The makespan if one op, no member of an overlap, takes `more` time than it does.
static int64_t makespanWith(const Program &program, const CostModel &costs, const Op &op, int64_t more) {
  CostModel changed = costs;
  StageTable<int64_t> *table = op.kind == OpKind::Forward         ? &changed.forward
                               : op.kind == OpKind::Backward      ? &changed.backward
                               : op.kind == OpKind::BackwardInput ? &changed.backwardInput
                               : op.kind == OpKind::Recompute     ? &changed.recompute
                                                                  : &changed.backwardWeight;
  StageTable<int64_t> longer;
  for (uint32_t m = 0; m < program.microbatches; ++m) {
    std::vector<int64_t> row;
    for (uint32_t s = 0; s < program.stages; ++s)
      row.push_back(table->at(s, m) + (s == op.stage && m == op.microbatch ? more : 0));
    longer.addMicrobatch(row);
  }
  longer.finish();
  *table = std::move(longer);
  Diagnostics diagnostics;
  return simulate(program, ProgramIndex(program), changed, diagnostics)->makespan;
}

TEST(Chains, SlackIsJustWhatAnOpMayTakeLonger) {
  for (unsigned seed = 2600; seed < 2700; ++seed) {
    const Simulated random = randomOne(seed);
    const auto &[program, costs, index, timeline, figures] = random;
    auto slack = slacks(program, index, costs, timeline);
    for (const CriticalStep &step : criticalPath(program, index, costs, timeline))
      EXPECT_EQ(slack[step.op], 0) << "seed " << seed;
    for (OpId op = 0; op < program.size(); ++op) {
      if (!program.ops[op].isCompute() || program.ops[op].has(OverlapFirst) ||
          program.ops[op].has(OverlapFollower))
        continue;
      EXPECT_EQ(makespanWith(program, costs, program.ops[op], slack[op]), timeline.makespan);
      EXPECT_EQ(makespanWith(program, costs, program.ops[op], slack[op] + 1), timeline.makespan + 1)
          << "seed " << seed << " " << str(program.ops[op]);
    }
  }
}

TEST(Chains, TheBindingTreeAgreesWithWalkingItsChains) {
  for (unsigned seed = 2300; seed < 2500; ++seed) {
    const Simulated random = randomOne(seed, 1 + seed % 5);
    const auto &[program, costs, index, timeline, figures] = random;
    Bindings bindings(program, index, costs, timeline);
    BindingTree tree(program, bindings);
    for (OpId last = 0; last < program.size(); last = program.groupEnd(last)) {
      // Unit of time by unit of time, back from the op's start.
      int64_t transferred = 0, to = bindings.start(last);
      for (OpId op = last; to > 0; op = bindings.of(op).op) {
        const int64_t sent = bindings.start(op) - bindings.of(op).transfer;
        const int64_t begin = bindings.start(bindings.of(op).op);
        for (; to > begin; --to) {
          EXPECT_EQ(tree.transferSince(to, last), transferred) << "seed " << seed;
          transferred += to > sent;
        }
      }
      EXPECT_EQ(tree.transferSince(0, last), transferred) << "seed " << seed;
    }
  }
}

TEST(Chains, GapsBehindASlowStageAreSplitTheSameWay) {
  // Every gap leads back to stage 0, so walking alone would take many steps an op.
  Program program = gpipe(12, 40);
  CostModel costs = CostModel::ofTicks(12, 1, 1, 0);
  std::vector<int64_t> forward(12, 1);
  forward[0] = 100;
  costs.forward = StageTable<int64_t>(forward);
  setTransfers(program, costs, 2);
  Figures figures = figuresOf(program, costs);
  for (uint32_t d = 1; d < 12; ++d)
    EXPECT_GE(figures.times[d].stallTransfer, 39 * 2 * static_cast<int64_t>(d));
  // The last device waits 99 after each forward but the last: 22 under transfers, 77 for stages before it.
  EXPECT_EQ(figures.times[11].stallTransfer, 39 * 22);
  EXPECT_EQ(figures.times[11].imbalance, 39 * 77);
  EXPECT_EQ(figures.times[11].stallUpstream, 0);
}
