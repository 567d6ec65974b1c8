// The main test of tables and runtime: buffers that know where they belong, over many schedules, and the
// proof that this notices any wrong slot.
#include "InMemory.h"
#include "Schedules.h"
#include "TokenStage.h"

#include <gtest/gtest.h>
#include <random>

using namespace sluice;
using namespace sluice::test;

TEST(Tokens, EverySchedulePassesThreeSteps) {
  for (const TestCase &test : allCases()) {
    const ExecutorTables tables = lower(test.program);
    const InMemory memory(test.name, tables);
    EXPECT_NO_THROW(runTokens<false>(memory.schedule, 3)) << test.name;
    EXPECT_NO_THROW(runTokens<true>(memory.schedule, 3)) << test.name << " with delays";
  }
}

TEST(Tokens, StepsFollowWithoutEnd) {
  const ExecutorTables tables = lower(oneFOneB(2, 4));
  const InMemory memory("one_f_one_b", tables);
  EXPECT_NO_THROW(runTokens<false>(memory.schedule, 2000));
}

namespace {

struct Mutation {
  uint32_t *slot;
  uint32_t count; ///< Slots of its class.
};

std::vector<Mutation> slotsOf(DeviceTable &device, runtime::Instruction &row) {
  using runtime::Op;
  std::vector<Mutation> slots;
  auto add = [&](uint32_t &slot, uint32_t count) {
    if (slot != runtime::noSlot && count > 1)
      slots.push_back({&slot, count});
  };
  add(row.a, device.boundaries);
  if (row.op == Op::Forward || row.op == Op::Loss || row.op == Op::Backward || row.op == Op::BackwardInput)
    add(row.b, device.boundaries);
  add(row.c, device.saveds);
  add(row.d, device.pendings);
  return slots;
}

} // namespace

TEST(Tokens, WrongSlotsAreCaught) {
  std::mt19937 random(7);
  unsigned tried = 0, caught = 0;
  std::string missed;
  for (const TestCase &test : allCases()) {
    if (test.program.microbatches < 3 || test.program.devices > 4 || test.name.starts_with("evaluation"))
      continue;
    const ExecutorTables original = lower(test.program);
    for (int turn = 0; turn < 4; ++turn) {
      ExecutorTables damaged = original;
      DeviceTable &device = damaged.devices[random() % damaged.devices.size()];
      runtime::Instruction &row = device.rows[random() % device.rows.size()];
      const std::vector<Mutation> slots = slotsOf(device, row);
      if (slots.empty())
        continue;
      const Mutation &mutation = slots[random() % slots.size()];
      *mutation.slot = (*mutation.slot + 1 + random() % (mutation.count - 1)) % mutation.count;
      ++tried;
      try {
        const InMemory memory(test.name, damaged);
        runTokens<false>(memory.schedule, 2, {.noProgressLimit = std::chrono::milliseconds(40)});
        missed += test.name + ": " + runtime::describe(row) + "\n";
      } catch (const runtime::ExecutionError &) {
        ++caught;
      }
    }
  }
  EXPECT_GE(tried, 300u);
  EXPECT_GE(caught * 100, tried * 99) << caught << " of " << tried << " caught; missed:\n" << missed;
  RecordProperty("tried", static_cast<int>(tried));
  RecordProperty("caught", static_cast<int>(caught));
  std::cout << "wrong slots caught: " << caught << " of " << tried << "\n" << missed;
}
