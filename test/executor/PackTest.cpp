// Rows plus repeats: written out again they are the rows they were made from, bit for bit, and they are few.
#include "InMemory.h"
#include "Packed.h"
#include "Schedules.h"

#include <gtest/gtest.h>
#include <random>

using namespace sluice;
using namespace sluice::test;
using runtime::Instruction;

namespace {

size_t keptRowsOf(const Program &program) {
  size_t kept = 0;
  for (const DeviceTable &device : lower(program).devices)
    kept += keptRows(device.rows, program.name);
  return kept;
}

} // namespace

TEST(PackRows, GivesTheSameRowsAgain) {
  for (const TestCase &test : allCases())
    keptRowsOf(test.program);
}

TEST(PackRows, KeepsAsMuchHoweverManyMicrobatches) {
  // Warm-up, steady state and drain; what grows with M is how often they turn. Where all forwards come
  // first, slots are taken at ever larger strides: a repeat more for each doubling.
  for (auto make : {oneFOneB, zbH1, gpipe, gpipeReversed, recomputing, overlapped, zeroing}) {
    const size_t kept = keptRowsOf(make(4, 256));
    EXPECT_LE(kept, 256u) << make(4, 4).name;
    EXPECT_LE(keptRowsOf(make(4, 1024)), kept + 64) << make(4, 4).name;
  }
}

TEST(PackRows, RowsWithoutAnyOrder) {
  // Few kinds of rows with few slots: accidental repeats, and maps that conflict.
  std::mt19937 random(1);
  for (unsigned round = 0; round < 2000; ++round) {
    std::vector<Instruction> rows(random() % 60);
    const unsigned slots = 1 + random() % 4, kinds = 1 + random() % 4;
    for (Instruction &row : rows) {
      const auto op = static_cast<runtime::Op>(random() % kinds * 6);
      auto slot = [&] {
        return random() % 8 == 0 ? runtime::noSlot : static_cast<uint32_t>(random() % slots);
      };
      row = {op,     0,
             0,      random() % 3 == 0 ? runtime::noMicrobatch : static_cast<uint32_t>(random() % 3),
             slot(), slot(),
             slot(), slot()};
    }
    keptRows(rows, "round " + std::to_string(round));
  }
}

TEST(PackRows, SlotsThatRotateTakeOneRepeat) {
  // Turn k takes slot k mod 7 and gives back slot (k + 3) mod 7.
  std::vector<Instruction> rows;
  for (uint32_t k = 0; k < 1000; ++k) {
    rows.push_back({runtime::Op::Recompute, 0, 3, k, k % 7, runtime::noSlot, 0, runtime::noSlot});
    rows.push_back({runtime::Op::Backward, 0, 3, k + 2, (k + 3) % 7, runtime::noSlot, 0, runtime::noSlot});
  }
  const PackedRows packed = packRows(rows);
  EXPECT_EQ(keptRows(rows, "rotating"), 2u);
  ASSERT_EQ(packed.repeats.size(), 1u);
  EXPECT_EQ(packed.repeats[0].times, 1000u);
  EXPECT_EQ(packed.repeats[0].microbatches, 1);
  // 0 to 5 become the next, 6 becomes 0.
  ASSERT_EQ(packed.moves.size(), 2u);
  EXPECT_EQ(packed.moves[0].shift, -6);
  EXPECT_EQ(packed.moves[1].count, 6u);
  EXPECT_EQ(packed.moves[1].shift, 1);
}

TEST(PackRows, TablesWithoutRepeatsAreTakenAsTheyAre) {
  const ExecutorTables tables = lower(oneFOneB(4, 8));
  const InMemory memory("plain", tables);
  const runtime::PlainTables plain(memory.schedule);
  EXPECT_EQ(plain.tables().devices.data(), memory.schedule.devices.data());
}
