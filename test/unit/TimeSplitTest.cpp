// Time per sample in three parts: they add up, and each is what docs/sweeps.md says, on schedules that nobody
// thought of.
#include "Timeline/TimeSplit.h"
#include "RandomSchedules.h"
#include "Simulated.h"

using namespace sluice;

namespace {

/// The same, but that nothing between devices, in collectives or to the host takes time.
CostModel withoutTransfers(CostModel costs, uint32_t stages) {
  const StageTable<int64_t> none(std::vector<int64_t>(stages, 0));
  costs.activationTransfer = costs.gradientTransfer = none;
  costs.skipTransfer.clear();
  costs.skipRoute.clear();
  costs.activationRoute = costs.gradientRoute = {};
  costs.reduce.clear();
  costs.unshard.clear();
  costs.reduceTied.clear();
  costs.offload = costs.reload = {};
  costs.hostRoutes.clear();
  return costs;
}

/// a * b, to be compared across rows of different units.
Rational product(const Rational &a, const Rational &b) { return *multiply(a, b); }

void expectParts(const Program &program, const CostModel &costs, const Figures &figures) {
  const auto split = timePerSample(program, costs, figures);
  ASSERT_TRUE(split.has_value());
  const Rational samples = *costs.batch;
  EXPECT_EQ(*add(*add(split->kernel, split->bubble), split->transfer), split->total);
  EXPECT_EQ(product(split->total, samples), product(figures.makespan, costs.unit));
  const Figures free = test::figuresOf(program, withoutTransfers(costs, program.stages));
  EXPECT_EQ(product(split->kernel, samples), product(free.ideal, costs.unit));
  EXPECT_EQ(product(split->bubble, samples), product(free.bubbleTime, costs.unit));
  EXPECT_EQ(product(split->transfer, samples),
            product(*subtract(Rational(figures.makespan), Rational(free.makespan)), costs.unit));
}

} // namespace

TEST(TimeSplit, PartsAreThoseOfTheTimelineWithoutTransfers) {
  unsigned withTransfers = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    slow::RandomSchedule schedule = slow::randomSchedule(seed);
    slow::Random random(seed);
    schedule.costs.batch = random.between(1, 96);
    schedule.costs.unit = *Rational::make(random.between(1, 20), random.between(1, 20));
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + schedule.str());
    const Program program = schedule.build();
    const Figures figures = test::figuresOf(program, schedule.costs);
    withTransfers += figures.transferExposed != 0;
    expectParts(program, schedule.costs, figures);
    if (HasFailure())
      break;
  }
  EXPECT_GT(withTransfers, 100u);
}

TEST(TimeSplit, UpdatesAreKernelsAndChangesAddUp) {
  std::optional<TimeSplit> before;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    slow::RandomSchedule schedule = slow::randomSchedule(seed);
    slow::Random random(seed);
    schedule.costs.batch = random.between(1, 12);
    for (uint32_t s = 0; s < schedule.stages; ++s)
      schedule.costs.update.push_back(random.between(0, 9));
    const Program program = schedule.build();
    const Figures figures = test::figuresOf(program, schedule.costs);
    auto split = timePerSample(program, schedule.costs, figures);
    ASSERT_TRUE(split.has_value());
    int64_t updates = 0;
    for (const Op &op : program.ops)
      updates += op.kind == OpKind::Update ? schedule.costs.update[op.stage] : 0;
    CostModel without = schedule.costs;
    without.update.clear();
    const auto less = timePerSample(program, without, test::figuresOf(program, without));
    EXPECT_EQ(*subtract(split->kernel, less->kernel),
              *Rational::make(updates, program.devices * *schedule.costs.batch));
    if (before) {
      const auto change = changeOf(*before, *split);
      ASSERT_TRUE(change.has_value());
      EXPECT_EQ(*add(*add(change->kernel, change->bubble), change->transfer), change->total);
      EXPECT_EQ(*add(before->total, change->total), split->total);
    }
    before = split;
  }
}

TEST(TimeSplit, NothingWithoutSamples) {
  slow::RandomSchedule schedule = slow::randomSchedule(1);
  schedule.costs.batch.reset();
  const Program program = schedule.build();
  EXPECT_FALSE(timePerSample(program, schedule.costs, test::figuresOf(program, schedule.costs)));
}
