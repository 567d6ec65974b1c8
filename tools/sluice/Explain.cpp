// sluice explain: what a rule means.
#include "Common.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice::tool {

namespace cl = llvm::cl;

static cl::opt<std::string> ruleName(cl::Positional, cl::desc("[RULE]"), cl::sub(explainCommand));

int runExplain() {
  if (ruleName.empty()) {
    for (const RuleInfo &rule : allRules())
      print(fmt::format("{} {:<28} {:<8} {}\n", rule.number, rule.name.str(), name(rule.severity).str(),
                        rule.message.str()));
    return Clean;
  }
  const RuleInfo *rule = findRule(ruleName);
  if (!rule)
    return usageError("there is no rule \"" + ruleName + "\": `sluice explain` lists them");
  print(fmt::format("{} {} ({})\n\n{}\n", rule->number, rule->name.str(), name(rule->severity).str(),
                    rule->message.str()));
  return Clean;
}

} // namespace sluice::tool
