// Findings and the one place that collects them. A rule is a row of Diagnostics.def; a finding is that
// row with its values, its place (span, device, op, loop indices), notes and a suggested fix. Text is
// lower case without a full stop. Nothing is printed here: renderers take the sorted list.
#pragma once

#include "Support/Source.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

enum class Severity : uint8_t { Note, Warning, Error };
llvm::StringRef name(Severity severity);

enum class Rule : uint16_t {
#define RULE(number, identifier, name, severity, message) identifier = number,
#include "Support/Diagnostics.def"
};

struct RuleInfo {
  Rule rule;
  unsigned number;
  llvm::StringRef identifier, name;
  Severity severity;
  llvm::StringRef message;
};
/// All rules by number.
llvm::ArrayRef<RuleInfo> allRules();
const RuleInfo &info(Rule rule);
/// By name (`missing-activation`) or number (`206`); null if there is none.
const RuleInfo *findRule(llvm::StringRef nameOrNumber);

/// Fills the `{name}`s of `pattern`; a placeholder without a value is a broken invariant.
using Values = std::vector<std::pair<llvm::StringRef, std::string>>;
std::string fill(llvm::StringRef pattern, const Values &values);

/// A variable of an enclosing loop and its value where the finding holds, outermost first.
struct LoopIndex {
  std::string name;
  int64_t value = 0;
};

/// A further place that belongs to a finding. A note without a span is only words.
struct Note {
  std::string message;
  Span span;
  std::optional<uint32_t> device;
  std::string op;
};

struct Edit {
  Span span;
  std::string text;
};
/// What to do about a finding; edits only where one place and one text are certain.
struct Fix {
  std::string message;
  std::vector<Edit> edits;
};

struct Finding {
  Rule rule;
  Severity severity;
  std::string message;
  Span span;
  std::string schedule;                 ///< Name of the schedule it was found in; empty for the file itself.
  std::vector<std::string> alsoIn = {}; ///< Schedules of one template that have the same fault.
  std::optional<uint32_t> device;
  std::string op; ///< `backward(1, 3)`: stage, microbatch.
  std::vector<LoopIndex> loops;
  std::vector<Note> notes;
  Fix fix;
  std::string instance;    ///< Over several instances: how many fail and the smallest, in words.
  std::string region = {}; ///< And which of them, in words; empty where `instance` says it all.
};

class Diagnostics {
public:
  /// Adds a finding and returns it for notes, device and so on; valid until the next report.
  Finding &report(Rule rule, Span span, const Values &values = {});

  /// Changes a rule's severity for this run (`--deny`, `--warn`).
  void setSeverity(Rule rule, Severity severity) { severities[rule] = severity; }
  /// Silences warnings and notes of `rule` (`allow`); errors stay. `schedule` empty: in all of them. An
  /// `allow` of a template stands once for each schedule of it, always at the same place.
  void allow(Rule rule, std::string schedule, Span where, bool mayBeUnused = false);

  bool hasErrors() const;
  /// The schedule that later reports belong to.
  void setSchedule(std::string name) { schedule = std::move(name); }

  std::vector<Finding> &findings() { return list; }
  const std::vector<Finding> &findings() const { return list; }
  /// Applies `allow`, reports those that silence nothing unless an error kept them from it, merges equal
  /// findings and sorts by place. Returns how many findings were allowed.
  unsigned finish();

private:
  struct Allowance {
    Rule rule;
    std::string schedule;
    Span where;
    bool mayBeUnused;
  };
  std::vector<Finding> list;
  std::vector<Allowance> allowances;
  std::map<Rule, Severity> severities;
  std::string schedule;
};

} // namespace sluice
