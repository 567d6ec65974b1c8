// The product against the slow model, on schedules that nobody thought of. Seeds are fixed; a failure
// prints its seed and the whole schedule.
#include "RandomSchedules.h"
#include "SlowModel.h"

#include <gtest/gtest.h>

using namespace sluice;
using slow::RandomSchedule;

namespace {

/// 1F1B on as many devices as stages, with one forward and one backward cost for each.
RandomSchedule oneForwardOneBackward(uint32_t devices, uint32_t microbatches) {
  RandomSchedule schedule = slow::emptySchedule(devices, microbatches, devices);
  for (std::vector<uint32_t> &row : schedule.placement)
    for (uint32_t s = 0; s < devices; ++s)
      row[s] = s;
  for (uint32_t d = 0; d < devices; ++d) {
    auto add = [&](OpKind kind, uint32_t m) { schedule.steps[d].push_back({Op{kind, 0, uint16_t(d), m}}); };
    const uint32_t warmup = std::min(devices - 1 - d, microbatches);
    for (uint32_t m = 0; m < warmup; ++m)
      add(OpKind::Forward, m);
    for (uint32_t m = warmup; m < microbatches + warmup; ++m) {
      if (m < microbatches)
        add(OpKind::Forward, m);
      add(OpKind::Backward, m - warmup);
    }
    add(OpKind::Reduce, noMicrobatch);
    add(OpKind::Update, noMicrobatch);
  }
  return schedule;
}

StageTable<int64_t> row(std::vector<int64_t> values) { return StageTable<int64_t>(std::move(values)); }

} // namespace

// The worked values of the language's definition hold for the model itself.
TEST(SlowModel, TransferOfTwo) {
  RandomSchedule schedule = oneForwardOneBackward(4, 8);
  schedule.costs.backward = row({1, 1, 1, 1});
  schedule.costs.activationTransfer = row({2, 2, 2, 0});
  schedule.costs.gradientTransfer = row({0, 2, 2, 2});
  Program program = schedule.build();
  EXPECT_TRUE(slow::judge(program, schedule.costs).isLegal());
  slow::Figures figures = slow::measure(program, schedule.costs, slow::run(program, schedule.costs));
  EXPECT_EQ(figures.makespan, 54);
  EXPECT_EQ(figures.devices[0].idle, 38);
  EXPECT_EQ(figures.devices[0].stallTransfer, 27);
  EXPECT_EQ(figures.devices[0].imbalance, 0);
  EXPECT_EQ(figures.devices[0].stallUpstream, 11);
}

TEST(SlowModel, WholeFileOfTheReference) {
  RandomSchedule schedule = oneForwardOneBackward(4, 8);
  CostModel &costs = schedule.costs; // nanoseconds; 5 us and 32 MiB at 50 GB/s
  const int64_t ms = 1'000'000, transfer = 5'000 + 671'089;
  costs.forward = row({10 * ms, 10 * ms, 10 * ms, 13 * ms});
  costs.backward = row({20 * ms, 20 * ms, 20 * ms, 26 * ms});
  costs.activationTransfer = row({transfer, transfer, transfer, 0});
  costs.gradientTransfer = row({0, transfer, transfer, transfer});
  Program program = schedule.build();
  slow::Figures figures = slow::measure(program, costs, slow::run(program, costs));
  auto hundredths = [](int64_t nanoseconds) { return (nanoseconds + 5'000) / 10'000; };
  EXPECT_EQ(hundredths(figures.makespan), 40606);
  EXPECT_EQ(hundredths(figures.devices[0].idle), 16606);
  EXPECT_EQ(hundredths(figures.devices[0].stallTransfer), 676);
  EXPECT_EQ(hundredths(figures.devices[0].imbalance), 7200);
  EXPECT_EQ(hundredths(figures.devices[0].stallUpstream), 8730);
}

TEST(RandomSchedules, AreLegal) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    RandomSchedule schedule = slow::randomSchedule(seed);
    Program program = schedule.build();
    slow::Verdict verdict = slow::judge(program, schedule.costs);
    ASSERT_TRUE(verdict.isLegal()) << "seed " << seed << "\n" << schedule.str();
    slow::Run result = slow::run(program, schedule.costs);
    ASSERT_TRUE(result.complete);
    slow::measure(program, schedule.costs, result);
  }
}
