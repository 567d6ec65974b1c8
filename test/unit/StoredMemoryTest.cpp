// Memory of programs that offload, reshard, shard optimizer state and keep contributions apart, held against
// the slow model. Whether the verdict likes them does not matter here: memory counts what stands there.
#include "Product.h"
#include "SlowModel.h"

#include <gtest/gtest.h>

using namespace sluice;
using slow::Product;
using slow::Random;
using slow::RandomSchedule;

namespace {

using Steps = std::vector<std::vector<Op>>;

bool isOfPair(const std::vector<Op> &step, const Op &pair) {
  return llvm::any_of(step, [&](const Op &op) {
    return op.hasMicrobatch() && op.stage == pair.stage && op.microbatch == pair.microbatch;
  });
}

void insert(Steps &steps, size_t at, OpKind kind, const Op &like, uint8_t flags = 0) {
  Op op{kind, flags, like.stage, like.microbatch};
  steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(at), {op});
}

/// Sends what a forward saves to the host and back, somewhere between it and the next op of the pair.
void offload(Steps &steps, size_t forward, Random &random) {
  const Op pair = steps[forward].front();
  size_t user = forward + 1;
  while (user < steps.size() && !isOfPair(steps[user], pair))
    ++user;
  if (user == steps.size())
    return;
  auto between = [&](size_t low) { return low + random.below(static_cast<uint32_t>(user - low) + 1); };
  const bool isStarted = random.chance(50);
  size_t at = between(forward + 1);
  for (OpKind kind : {OpKind::Offload, OpKind::Reload}) {
    insert(steps, at, kind, pair, isStarted ? Started : 0);
    ++user;
    if (isStarted) {
      insert(steps, at = between(at + 1), kind, pair, Waits);
      ++user;
    }
    at = between(at + 1);
  }
}

void makeStored(RandomSchedule &schedule, Random &random) {
  for (Steps &steps : schedule.steps) {
    for (size_t i = 0; i < steps.size(); ++i)
      if (steps[i].size() == 1 && steps[i][0].kind == OpKind::Forward && steps[i][0].flags == 0 &&
          random.chance(40))
        offload(steps, i, random);
    const auto count = static_cast<uint32_t>(steps.size());
    for (uint32_t n = random.below(5); n > 0 && count > 0; --n) {
      const Op like{OpKind::Unshard, 0, steps[random.below(count)][0].stage, noMicrobatch};
      insert(steps, random.below(count), random.chance(50) ? OpKind::Unshard : OpKind::Reshard, like);
    }
    for (std::vector<Op> &step : steps) // in an overlap nobody says which of two comes first
      if (step.size() == 1 && step[0].contributes() && random.chance(5))
        step[0].flags |= Overwrite;
  }
  schedule.costs.replicas = 1 + random.below(4);
  schedule.costs.isSharded = random.chance(50);
  schedule.costs.keepsContributions = random.chance(50);
  schedule.costs.reshardsAfterReduce = random.chance(30);
}

} // namespace

TEST(StoredMemory, AgreesWithTheSlowModel) {
  unsigned different = 0;
  for (uint64_t seed = 20000; seed < 23000; ++seed) {
    RandomSchedule schedule = slow::randomSchedule(seed);
    Product plain(schedule);
    Random random(seed);
    makeStored(schedule, random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + schedule.str());
    Product product(schedule);
    product.measure(schedule);
    ASSERT_TRUE(product.timeline && product.figures) << product.findings();
    slow::Run run = slow::run(product.program, schedule.costs);
    slow::Figures expected = slow::measure(product.program, schedule.costs, run);
    for (uint32_t device = 0; device < schedule.devices; ++device) {
      const DeviceMemory &memory = product.figures->memory.devices[device];
      EXPECT_EQ(memory.peakSaved, expected.devices[device].peakSaved) << device;
      EXPECT_EQ(memory.peakActivation, expected.devices[device].peakActivation) << device;
      EXPECT_EQ(memory.peakBytes, expected.devices[device].peakMemory) << device;
      int64_t listed = 0;
      for (const LiveItem &item : memory.livePeak)
        listed += item.bytes;
      EXPECT_EQ(listed, memory.peakBytes) << device;
      if (plain.figures)
        different += memory.peakBytes != plain.figures->memory.devices[device].peakBytes;
    }
    if (HasFailure())
      return;
  }
  EXPECT_GT(different, 1000u) << "the changes no longer show in the peaks";
}

// The first moment above a limit, against the peak: a limit at the peak holds, one below it does not.
TEST(StoredMemory, LimitsHoldAtThePeakAndNotBelow) {
  for (uint64_t seed = 23000; seed < 23300; ++seed) {
    RandomSchedule schedule = slow::randomSchedule(seed);
    Random random(seed);
    makeStored(schedule, random);
    Product product(schedule);
    product.measure(schedule);
    ASSERT_TRUE(product.figures) << product.findings();
    CostModel costs = schedule.costs;
    for (const DeviceMemory &memory : product.figures->memory.devices)
      costs.memoryLimit.push_back(memory.peakBytes);
    const Versions versions = versionsOf(product.program);
    auto excesses = [&] {
      return memoryExcesses(product.program, product.index, costs, *product.timeline, product.diagnostics,
                            costs.asynchronous ? &versions : nullptr);
    };
    EXPECT_TRUE(excesses().empty()) << seed;
    for (uint32_t device = 0; device < schedule.devices; ++device) {
      if (costs.memoryLimit[device] == 0)
        continue;
      --costs.memoryLimit[device];
      std::vector<MemoryExcess> found = excesses();
      ASSERT_EQ(found.size(), 1u) << seed;
      const DeviceMemory &memory = product.figures->memory.devices[device];
      EXPECT_EQ(found[0].device, device);
      EXPECT_EQ(found[0].bytes, memory.peakBytes) << "the first moment above is the peak's";
      EXPECT_TRUE(found[0].op == noOp || found[0].op == memory.peakOp);
      ++costs.memoryLimit[device];
    }
  }
}
