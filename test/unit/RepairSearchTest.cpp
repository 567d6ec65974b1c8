// Repairs of random deadlocks, under every rule of channels: each one that is offered completes whatever the
// order of events, and sends and receives alone are always repaired.
#include "CommunicationSearch.h"
#include "Events/Repair.h"
#include "ExplicitPrograms.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <tuple>

namespace sluice::slow {
namespace {

/// The ops of each device whatever their order and grouping.
DeviceOps sorted(const Program &program) {
  DeviceOps devices = devicesOf(program);
  for (std::vector<Op> &ops : devices) {
    for (Op &op : ops)
      op.flags &= static_cast<uint8_t>(~(GroupFirst | GroupFollower));
    std::sort(ops.begin(), ops.end(), [](const Op &a, const Op &b) {
      return std::tie(a.kind, a.flags, a.stage, a.microbatch) <
             std::tie(b.kind, b.flags, b.stage, b.microbatch);
    });
  }
  return devices;
}

TEST(RepairSearch, RepairsCompleteWhateverTheOrderOfEvents) {
  size_t stuck = 0, edited = 0, changed = 0, none = 0;
  for (uint64_t seed = 0; seed < 12'000; ++seed) {
    Random random(seed);
    const Program program = randomCommunication(seed);
    for (int i = 0; i < 4; ++i) {
      const Blocking blocking = randomBlocking(random);
      const Posting posting(machineProgram(program), blocking);
      if (!posting.isWhole())
        continue; // what is missing comes first
      const std::optional<WaitCycle> cycle = stuckUnder(program, rulesOf(blocking));
      if (!cycle || cycle->empty())
        continue;
      ++stuck;
      SCOPED_TRACE(str(blocking) + "\n" + describe(program));
      const std::optional<Repair> repair = smallestRepair(program, rulesOf(blocking), *cycle);
      if (!repair) {
        ++none; // joint calls in other orders, or skip edges, over which nothing can be inferred instead
        ASSERT_TRUE(!program.skips.empty() ||
                    std::any_of(program.ops.begin(), program.ops.end(),
                                [](const Op &op) { return !op.isCommunication() && !op.isCompute(); }));
        continue;
      }
      Blocking mended = blocking;
      if (repair->change == Repair::Change::Deepen)
        mended.depth = repair->depth;
      if (repair->change != Repair::Change::InferEarly) {
        ASSERT_EQ(sorted(program), sorted(repair->repaired)) << describe(repair->repaired);
      }
      const Posting after(machineProgram(repair->repaired), mended);
      ASSERT_TRUE(after.isWhole()) << describe(repair->repaired);
      const Outcome outcome = runEveryWay(after, mended, 200'000);
      if (outcome.tooLarge)
        continue;
      ASSERT_EQ(outcome.finals, 1u);
      ASSERT_TRUE(outcome.completes) << str(mended) << "\n" << describe(repair->repaired);
      (repair->change == Repair::Change::None ? edited : changed) += 1;
    }
  }
  RecordProperty("repairs",
                 fmt::format("{} stuck: {} by edits, {} as a whole, {} none", stuck, edited, changed, none));
  EXPECT_GT(edited, 8000u);
  EXPECT_LT(none, stuck / 7);
}

} // namespace
} // namespace sluice::slow
