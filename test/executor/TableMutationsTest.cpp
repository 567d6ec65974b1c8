// Tables with one number changed: the interpreter must notice nearly all of them, or it proves little.
#include "Compiled.h"
#include "Forms.h"
#include "TableDamage.h"
#include "TableMachine.h"

#include "Events/Completion.h"
#include "Passes/AssignSlots.h"

#include <gtest/gtest.h>
#include <random>

using namespace sluice;
using namespace sluice::test;

namespace {

struct Tally {
  unsigned tried = 0, caught = 0;
  std::string missed;
};

void damageAndRun(const CompiledSchedule &schedule, unsigned turns, std::mt19937 &random, Tally &tally) {
  const std::optional<ExecutorTables> original = assignSlots(schedule.program, schedule.costs);
  ASSERT_TRUE(original);
  MachineOptions options;
  options.model = runtime::ChannelModel::unbounded;
  options.steps = 3;
  options.waitsLazily = !schedule.program.isExplicit && schedule.costs.communication != "just_in_time";
  options.readsNewest = schedule.program.versions == VersionRule::Newest;
  for (const Op &op : schedule.program.ops)
    options.keepsUsed |= op.kind == OpKind::Zero || op.overwrites();
  options.wanted = [&](uint32_t unit, size_t count) { return wantedFactor(schedule, unit, count); };
  for (unsigned turn = 0; turn < turns; ++turn) {
    ExecutorTables damaged = *original;
    const std::string what = damage(damaged, random, /*andEdges=*/true);
    if (what.empty())
      continue;
    ++tally.tried;
    try {
      runTables(damaged, options);
      tally.missed += schedule.name + ": " + what + "\n";
    } catch (const TableFault &) {
      ++tally.caught;
    }
  }
}

} // namespace

TEST(TableMutations, OfFormsAreCaught) {
  std::mt19937 random(11);
  Tally tally;
  for (const Form &form : forms)
    for (const CompiledSchedule &schedule : compileSchedules(form.text, {}))
      damageAndRun(schedule, 150, random, tally);
  EXPECT_GE(tally.tried, 2000u);
  EXPECT_GE(tally.caught * 100, tally.tried * 99) << tally.missed;
  std::cout << tally.caught << " of " << tally.tried << " caught; missed:\n" << tally.missed;
}

TEST(TableMutations, OfTheLibraryAreCaught) {
  std::mt19937 random(12);
  Tally tally;
  for (const CompiledSchedule &schedule : librarySchedules(4))
    damageAndRun(schedule, 6, random, tally);
  EXPECT_GE(tally.tried, 1000u);
  EXPECT_GE(tally.caught * 100, tally.tried * 99) << tally.missed;
  std::cout << tally.caught << " of " << tally.tried << " caught; missed:\n" << tally.missed;
}
