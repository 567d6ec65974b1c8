// The page of each rule: what it means, a schedule that breaks it with the findings it gets, and the same
// mended. The pages are docs/rules/NNN-name.md, built into the compiler; `sluice explain RULE` prints one.
#pragma once

#include "Support/Diagnostics.h"

namespace sluice {

struct RulePage {
  llvm::StringRef name; ///< `206-missing-activation.md`
  llvm::StringRef text; ///< Markdown, ended by '\n'.
};
/// All pages by number.
llvm::ArrayRef<RulePage> rulePages();
/// `206-missing-activation.md`
std::string pageName(const RuleInfo &rule);
/// Null if the rule has no page.
const RulePage *findPage(const RuleInfo &rule);

/// docs/rules.md: all rules by family, each with its severity, message and a link to its page.
std::string ruleIndex();

} // namespace sluice
