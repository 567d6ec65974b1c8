#include "Support/RulePages.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

namespace {
struct Family {
  unsigned hundred;
  const char *title;
};
constexpr Family families[] = {{1, "Language"},
                               {2, "Dependencies and activations"},
                               {3, "Order and deadlock"},
                               {4, "Communication"},
                               {5, "Gradients, reductions and updates"},
                               {6, "Weight versions, tied and sharded weights"},
                               {7, "Memory and slots"},
                               {8, "Sizes and placement"},
                               {9, "Figures and expectations"}};
} // namespace

std::string pageName(const RuleInfo &rule) { return fmt::format("{}-{}.md", rule.number, rule.name.str()); }

const RulePage *findPage(const RuleInfo &rule) {
  const auto *found =
      llvm::find_if(rulePages(), [&](const RulePage &page) { return page.name == pageName(rule); });
  return found == rulePages().end() ? nullptr : found;
}

static std::string familySection(const Family &family) {
  std::string rows;
  for (const RuleInfo &rule : allRules())
    if (rule.number / 100 == family.hundred)
      rows += fmt::format("| [{}](rules/{}) | {} | {} | {} |\n", rule.number, pageName(rule), rule.name.str(),
                          name(rule.severity).str(), rule.message.str());
  if (rows.empty())
    return "";
  return fmt::format("\n## {}xx {}\n\n| number | name | severity | message |\n| --- | --- | --- | --- |\n{}",
                     family.hundred, family.title, rows);
}

static constexpr const char *introduction = R"(# Rules

Every finding of `sluice check` belongs to a rule. A rule has a number, a name and a default severity; `--deny NAME`
and `--warn NAME` change the severity for one run, and `allow NAME, "reason";` in a file silences a warning or a note.
Words in braces are filled in by the finding. Each number leads to a page with a schedule that breaks the rule and the
same schedule mended; `sluice explain NAME` prints that page. This index is the output of `sluice explain --markdown`.

[faults.md](faults.md) goes the other way: reports of what went wrong for people, by kind, with the rule that finds each
and the test that shows it, and those that no schedule can express, [out of reach](faults.md#out-of-reach), with the
reason.
)";

std::string ruleIndex() {
  std::string text = introduction;
  for (const Family &family : families)
    text += familySection(family);
  return text;
}

} // namespace sluice
