// Values that the language's definition works out by hand: the slow model and the product both give them.
#include "Product.h"

#include <gtest/gtest.h>

using namespace sluice;
using slow::Product;
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

struct Both {
  slow::Figures model;
  sluice::Figures product;
};
Both figuresOf(const RandomSchedule &schedule) {
  Product product(schedule);
  EXPECT_TRUE(slow::judge(product.program, schedule.costs).isLegal());
  EXPECT_TRUE(product.verdict.clean && product.figures) << product.findings();
  return {slow::measure(product.program, schedule.costs, slow::run(product.program, schedule.costs)),
          *product.figures};
}

/// Nanoseconds in hundredths of a millisecond, as the definition prints them.
int64_t hundredths(int64_t nanoseconds) { return (nanoseconds + 5'000) / 10'000; }

} // namespace

// 1F1B, P = 4, M = 8, f = b = 1, transfer 2.
TEST(WorkedValues, TransferOfTwo) {
  RandomSchedule schedule = oneForwardOneBackward(4, 8);
  schedule.costs.backward = row({1, 1, 1, 1});
  schedule.costs.activationTransfer = row({2, 2, 2, 0});
  schedule.costs.gradientTransfer = row({0, 2, 2, 2});
  auto [model, product] = figuresOf(schedule);
  EXPECT_EQ(model.makespan, 54);
  EXPECT_EQ(model.devices[0].idle, 38);
  EXPECT_EQ(model.devices[0].stallTransfer, 27);
  EXPECT_EQ(model.devices[0].imbalance, 0);
  EXPECT_EQ(model.devices[0].stallUpstream, 11);
  EXPECT_EQ(product.makespan, 54);
  EXPECT_EQ(product.times[0].idle, 38);
  EXPECT_EQ(product.times[0].stallTransfer, 27);
  EXPECT_EQ(product.times[0].imbalance, 0);
  EXPECT_EQ(product.times[0].stallUpstream, 11);
}

// Forwards of 10 ms and 13 ms on the last stage, backwards twice that; 5 us and 32 MiB at 50 GB/s.
TEST(WorkedValues, UnequalLastStage) {
  RandomSchedule schedule = oneForwardOneBackward(4, 8);
  const int64_t ms = 1'000'000, transfer = 5'000 + 671'089;
  schedule.costs.forward = row({10 * ms, 10 * ms, 10 * ms, 13 * ms});
  schedule.costs.backward = row({20 * ms, 20 * ms, 20 * ms, 26 * ms});
  schedule.costs.activationTransfer = row({transfer, transfer, transfer, 0});
  schedule.costs.gradientTransfer = row({0, transfer, transfer, transfer});
  auto [model, product] = figuresOf(schedule);
  EXPECT_EQ(hundredths(model.makespan), 406'06);
  EXPECT_EQ(hundredths(model.devices[0].idle), 166'06);
  EXPECT_EQ(hundredths(model.devices[0].stallTransfer), 6'76);
  EXPECT_EQ(hundredths(model.devices[0].imbalance), 72'00);
  EXPECT_EQ(hundredths(model.devices[0].stallUpstream), 87'30);
  EXPECT_EQ(hundredths(product.makespan), 406'06);
  EXPECT_EQ(hundredths(product.times[0].idle), 166'06);
  EXPECT_EQ(hundredths(product.times[0].stallTransfer), 6'76);
  EXPECT_EQ(hundredths(product.times[0].imbalance), 72'00);
  EXPECT_EQ(hundredths(product.times[0].stallUpstream), 87'30);
}

// Equal costs and free transfers: (P - 1) / M and (P - 1) / (M + P - 1), and min(P - d, M) activations.
TEST(WorkedValues, ClosedFormsOfOneForwardOneBackward) {
  for (uint32_t devices = 1; devices <= 12; ++devices)
    for (uint32_t microbatches = 1; microbatches <= 24; ++microbatches) {
      SCOPED_TRACE("P = " + std::to_string(devices) + ", M = " + std::to_string(microbatches));
      auto [model, product] = figuresOf(oneForwardOneBackward(devices, microbatches));
      const Rational overhead = Rational::make(devices - 1, microbatches).value();
      const Rational idle = Rational::make(devices - 1, microbatches + devices - 1).value();
      EXPECT_TRUE(model.overheadRatio == overhead && *product.overheadRatio == overhead);
      EXPECT_TRUE(model.idleFraction == idle && *product.idleFraction == idle);
      for (uint32_t d = 0; d < devices; ++d) {
        EXPECT_EQ(model.devices[d].peakActivation, std::min(devices - d, microbatches));
        EXPECT_EQ(product.memory.devices[d].peakActivation, std::min(devices - d, microbatches));
      }
    }
}
