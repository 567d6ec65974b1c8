#include "Support/Diagnostics.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>

namespace sluice {

llvm::StringRef name(Severity severity) {
  switch (severity) {
  case Severity::Note:
    return "note";
  case Severity::Warning:
    return "warning";
  case Severity::Error:
    return "error";
  }
  return "";
}

static constexpr RuleInfo table[] = {
#define RULE(number, identifier, name, severity, message)                                                    \
  {Rule::identifier, number, #identifier, name, Severity::severity, message},
#include "Support/Diagnostics.def"
};

llvm::ArrayRef<RuleInfo> allRules() { return table; }

const RuleInfo &info(Rule rule) {
  const auto *found = llvm::find_if(table, [&](const RuleInfo &row) { return row.rule == rule; });
  assert(found != std::end(table));
  return *found;
}

const RuleInfo *findRule(llvm::StringRef nameOrNumber) {
  unsigned number = 0;
  bool isNumber = !nameOrNumber.getAsInteger(10, number);
  for (const RuleInfo &row : table)
    if (isNumber ? row.number == number : row.name == nameOrNumber)
      return &row;
  return nullptr;
}

std::string fill(llvm::StringRef pattern, const Values &values) {
  std::string text;
  while (!pattern.empty()) {
    auto [literal, rest] = pattern.split('{');
    text += literal;
    if (rest.empty())
      break;
    auto [key, after] = rest.split('}');
    auto value = llvm::find_if(values, [&](const auto &entry) { return entry.first == key; });
    assert(value != values.end() && "a placeholder without a value");
    if (value != values.end())
      text += value->second;
    pattern = after;
  }
  return text;
}

Finding &Diagnostics::report(Rule rule, Span span, const Values &values) {
  const RuleInfo &row = info(rule);
  auto changed = severities.find(rule);
  Finding finding{rule,
                  changed == severities.end() ? row.severity : changed->second,
                  fill(row.message, values),
                  span,
                  schedule,
                  {},
                  {},
                  {},
                  {},
                  {},
                  {},
                  {}};
  list.push_back(std::move(finding));
  return list.back();
}

void Diagnostics::allow(Rule rule, std::string inSchedule, Span where, bool mayBeUnused) {
  allowances.push_back({rule, std::move(inSchedule), where, mayBeUnused});
}

bool Diagnostics::hasErrors() const {
  return llvm::any_of(list, [](const Finding &f) { return f.severity == Severity::Error; });
}

unsigned Diagnostics::finish() {
  unsigned allowed = 0;
  std::set<uint32_t> used; // places
  llvm::erase_if(list, [&](const Finding &finding) {
    if (finding.severity == Severity::Error)
      return false;
    for (const Allowance &a : allowances) {
      if (a.rule != finding.rule || (!a.schedule.empty() && a.schedule != finding.schedule))
        continue;
      used.insert(a.where.begin);
      ++allowed;
      return true;
    }
    return false;
  });
  if (!hasErrors())
    for (const Allowance &a : allowances)
      if (!a.mayBeUnused && used.insert(a.where.begin).second)
        report(Rule::UnusedAllow, a.where, {{"rule", info(a.rule).name.str()}}).fix.message = "delete it";
  llvm::stable_sort(list, [](const Finding &a, const Finding &b) {
    return std::tie(a.span.begin, a.rule) < std::tie(b.span.begin, b.rule);
  });
  // Schedules that share a broken template have one fault, which is said once.
  auto same = [](const Finding &a, const Finding &b) {
    return a.rule == b.rule && a.span == b.span && a.message == b.message && a.device == b.device;
  };
  std::vector<Finding> merged;
  for (Finding &finding : list) {
    if (merged.empty() || !same(merged.back(), finding))
      merged.push_back(std::move(finding));
    else if (finding.schedule != merged.back().schedule &&
             !llvm::is_contained(merged.back().alsoIn, finding.schedule))
      merged.back().alsoIn.push_back(finding.schedule);
  }
  list = std::move(merged);
  return allowed;
}

} // namespace sluice
