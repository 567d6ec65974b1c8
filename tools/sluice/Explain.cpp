// sluice explain: what a rule means, or what the transports stand for.
#include "Emit/TransportTable.h"
#include "Support/RulePages.h"

#include "Common.h"

#include <cassert>
#include <fmt/format.h>

namespace sluice::tool {

namespace cl = llvm::cl;

static cl::opt<std::string> ruleName(cl::Positional, cl::desc("[RULE|transport]"), cl::sub(explainCommand));
static cl::opt<bool> markdown("markdown", cl::desc("Print the index of all rules with links to their pages"),
                              cl::sub(explainCommand));

static void listRules() {
  for (const RuleInfo &rule : allRules())
    print(fmt::format("{} {:<28} {:<8} {}\n", rule.number, rule.name.str(), name(rule.severity).str(),
                      rule.message.str()));
}

ExitCode runExplain() {
  if (markdown && !ruleName.empty())
    return usageError("--markdown prints all rules; name one without it");
  if (markdown) {
    print(ruleIndex());
    return Clean;
  }
  if (ruleName.empty()) {
    listRules();
    return Clean;
  }
  if (ruleName == "transport") {
    print(transportTable());
    return Clean;
  }
  const RuleInfo *rule = findRule(ruleName);
  if (!rule)
    return usageError(
        "there is no rule \"" + ruleName +
        "\": `sluice explain` lists them; `sluice explain transport` says what blocks under which transport");
  const RulePage *page = findPage(*rule);
  assert(page && "every rule has a page");
  print(page->text);
  return Clean;
}

} // namespace sluice::tool
