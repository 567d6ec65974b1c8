// The table of rules against its pages: a rule that nothing reports has no page that could show it.
#include "Support/RulePages.h"

#include "Documents.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace sluice {

static void PrintTo(const RuleInfo &rule, std::ostream *out) { *out << rule.name.str(); }

namespace test {
namespace {

/// As the page of 113 says; no other page comes near it.
constexpr uint64_t maxOps = 1000;

class RulePageTest : public testing::TestWithParam<RuleInfo> {
protected:
  void SetUp() override {
    ASSERT_TRUE(findPage(GetParam())) << "no page docs/rules/" << pageName(GetParam());
    page = findPage(GetParam())->text;
    blocks = fencedBlocks(page);
    std::vector<std::string> languages;
    for (const FencedBlock &block : blocks)
      languages.push_back(block.language);
    // What no schedule file can say is shown in JSON.
    const std::string language = GetParam().number == 404 ? "json" : "sluice";
    ASSERT_EQ(languages, (std::vector<std::string>{language, "text", language}));
  }

  llvm::StringRef page;
  std::vector<FencedBlock> blocks; // failing, its output, mended
};

TEST_P(RulePageTest, BeginsWithTitleAndSeverity) {
  const RuleInfo &rule = GetParam();
  std::string begin =
      fmt::format("# {} {}\n\nSeverity: {}.\n\n", rule.number, rule.name.str(), name(rule.severity).str());
  EXPECT_EQ(page.take_front(begin.size()), begin);
  EXPECT_TRUE(page.contains(fmt::format("```\n\nMended:\n\n```{}\n", blocks[0].language)));
}

TEST_P(RulePageTest, FailingExampleGivesItsFindingAlone) {
  const RuleInfo &rule = GetParam();
  CheckedText checked = checkText(blocks[0], maxOps);
  EXPECT_EQ(checked.output, blocks[1].text);
  std::vector<Rule> grave;
  for (const Finding &finding : checked.findings)
    if (finding.severity >= rule.severity)
      grave.push_back(finding.rule);
  EXPECT_EQ(grave, std::vector<Rule>{rule.rule});
}

TEST_P(RulePageTest, MendedExampleGivesNone) {
  CheckedText checked = checkText(blocks[2], maxOps);
  EXPECT_TRUE(checked.findings.empty()) << checked.output;
}

TEST_P(RulePageTest, MessageIsLowerCaseWithoutFullStop) {
  llvm::StringRef message = GetParam().message;
  EXPECT_EQ(message, message.lower());
  EXPECT_FALSE(message.ends_with("."));
}

INSTANTIATE_TEST_SUITE_P(Rules, RulePageTest, testing::ValuesIn(allRules().begin(), allRules().end()),
                         [](const auto &info) { return info.param.identifier.str(); });

} // namespace

TEST(RulePages, EachBelongsToARule) {
  for (const RulePage &page : rulePages())
    EXPECT_TRUE(llvm::any_of(allRules(), [&](const RuleInfo &rule) { return pageName(rule) == page.name; }))
        << page.name.str();
}

TEST(RulePages, RulesAreInOrderAndOnce) {
  for (size_t i = 1; i < allRules().size(); ++i)
    EXPECT_LT(allRules()[i - 1].number, allRules()[i].number);
}

TEST(RulePages, IndexIsWhatTheTablePrints) { EXPECT_EQ(readDocument("rules.md"), ruleIndex()); }

} // namespace test
} // namespace sluice
