// The step machine against what is written for people: it goes wrong on the failing example of every rule
// whose fault it can see, in that rule's family, and runs all mended ones and the examples of the
// documentation.
#include "Documents.h"
#include "StepPrograms.h"
#include "Support/RulePages.h"

#include <algorithm>
#include <filesystem>
#include <gtest/gtest.h>
#include <set>

namespace sluice::machine {
namespace {

/// Families that speak of what a program does. The rules of theirs that are left out: about what blocks under
/// narrow channels (the machine's are unbounded), placement and sizes, bytes and declared buffers.
bool isSeen(const RuleInfo &rule) {
  static const std::set<unsigned> others = {301, 303, 306, 307, 310, 311, 404, 410, 509, 701,
                                            703, 704, 801, 803, 804, 805, 806, 807, 809, 814};
  const unsigned family = rule.number / 100;
  return family >= 2 && family <= 8 && rule.severity == Severity::Error && !others.count(rule.number);
}

/// Schedules of the machine's size: every pair is placed.
bool isWhole(const Start &start) {
  return std::all_of(start.program.placement.all().begin(), start.program.placement.all().end(),
                     [](uint32_t device) { return device != noDevice; });
}

TEST(StepMachine, GoesWrongWhereTheRulePagesDo) {
  unsigned seen = 0;
  for (const RuleInfo &rule : allRules()) {
    const RulePage *page = findPage(rule);
    if (!isSeen(rule) || !page)
      continue;
    SCOPED_TRACE(rule.name.str());
    const std::vector<test::FencedBlock> blocks = test::fencedBlocks(page->text);
    ASSERT_EQ(blocks.size(), 3u);
    std::set<unsigned> families;
    for (const Start &start : startsIn(blocks[0].text))
      for (unsigned family : blamed(run(stepProgram(start.program, start.costs))))
        families.insert(family);
    EXPECT_TRUE(families.count(rule.number / 100));
    ++seen;
  }
  EXPECT_GT(seen, 25u);
}

TEST(StepMachine, RunsTheMendedPages) {
  for (const RuleInfo &rule : allRules())
    if (const RulePage *page = findPage(rule)) {
      SCOPED_TRACE(rule.name.str());
      for (const Start &start : startsIn(test::fencedBlocks(page->text).back().text))
        if (isWhole(start) && start.program.size() < 2000) {
          EXPECT_EQ(str(run(stepProgram(start.program, start.costs))), "");
        }
    }
}

TEST(StepMachine, RunsTheExamples) {
  unsigned found = 0;
  for (const auto &entry : std::filesystem::directory_iterator(SLUICE_DOCS "/examples")) {
    if (entry.path().extension() != ".sluice")
      continue;
    SCOPED_TRACE(entry.path().filename().string());
    for (const Start &start : startsIn(test::readDocument("examples/" + entry.path().filename().string()))) {
      if (start.program.size() > 2000)
        continue;
      EXPECT_EQ(str(run(stepProgram(start.program, start.costs))), "");
      ++found;
    }
  }
  EXPECT_GE(found, 3u);
}

} // namespace
} // namespace sluice::machine
