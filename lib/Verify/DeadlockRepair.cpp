// The smallest repair of a deadlock in words; Events/Repair.h finds it.
#include "Events/Repair.h"
#include "Verify/Faults.h"
#include "Verify/Order.h"

#include <fmt/format.h>

namespace sluice {

namespace {

class RepairWords {
public:
  explicit RepairWords(const VerifyContext &context) : context(context), program(context.program) {}
  std::string of(const RepairEdit &edit) const;

private:
  std::string statement(const RepairEdit &edit, OpId op) const;
  std::string moved(const RepairEdit &edit, OpId op) const;
  std::string place(const RepairEdit &edit) const;

  const VerifyContext &context;
  const Program &program;
};

} // namespace

/// `send_activation(0, 3)`, or as it is written where all its instances are meant.
std::string RepairWords::statement(const RepairEdit &edit, OpId op) const {
  if (edit.scope == RepairEdit::Scope::One || !context.sources || !program.spanOf(op).isValid())
    return opText(context, op);
  llvm::StringRef text = context.sources->text(program.spanOf(op)).trim("; \t");
  return text.empty() || text.contains('\n') ? opText(context, op) : text.str();
}

std::string RepairWords::moved(const RepairEdit &edit, OpId op) const {
  const std::string name = statement(edit, op);
  if (!program.ops[op].has(GroupFirst) && !program.ops[op].has(GroupFollower))
    return name;
  return edit.wholeGroup ? "the group of " + name : name + ", taken out of its group,";
}

/// ` (lines 4 and 5)` of statements, ` on device 2` of what only one device has to change.
std::string RepairWords::place(const RepairEdit &edit) const {
  std::string text;
  const Span first = program.spanOf(edit.op), second = program.spanOf(edit.other);
  if (edit.scope != RepairEdit::Scope::One && context.sources && first.isValid() && second.isValid()) {
    const unsigned line = context.sources->locate(first.begin).line;
    const unsigned other = context.sources->locate(second.begin).line;
    text = line == other || edit.kind == RepairEdit::Kind::Split
               ? fmt::format(" (line {})", line)
               : fmt::format(" (lines {} and {})", line, other);
  }
  if (edit.scope != RepairEdit::Scope::All)
    text += fmt::format(" on device {}", edit.device);
  return text;
}

std::string RepairWords::of(const RepairEdit &edit) const {
  const std::string op = statement(edit, edit.op), other = statement(edit, edit.other);
  const Op &post = program.ops[edit.op];
  std::string text;
  switch (edit.kind) {
  case RepairEdit::Kind::Group:
    text = edit.atPlaceOfOp ? fmt::format("group {} with {}", op, moved(edit, edit.other))
                            : fmt::format("group {} with {}", moved(edit, edit.op), other);
    if (!edit.areNeighbours)
      text += fmt::format(" at the place of {}", edit.atPlaceOfOp ? op : other);
    break;
  case RepairEdit::Kind::Lift:
    text = fmt::format("{} {} before {}", post.isCommunication() && !post.isWait() ? "post" : "move",
                       moved(edit, edit.op), other);
    break;
  case RepairEdit::Kind::Lower:
    text = fmt::format("move {} behind {}", moved(edit, edit.op), other);
    break;
  case RepairEdit::Kind::Split:
    text = fmt::format("split the group before {}", op);
    break;
  }
  return text + place(edit);
}

std::string repairOfDeadlock(const VerifyContext &context, const ChannelRules &rules,
                             const WaitCycle &cycle) {
  // What is not written cannot be moved; the compute order is acyclic, so early placement completes.
  if (context.costs.communication == "just_in_time")
    return "communication = inferred(early);, which completes under every channel model";
  const std::optional<Repair> repair = smallestRepair(context.program, rules, cycle);
  if (!repair)
    return "";
  switch (repair->change) {
  case Repair::Change::GroupNeighbours:
    return "group sends and receives that follow each other, on all devices";
  case Repair::Change::InferEarly:
    return "leave sends and receives out, of a file or of a table: inferred(early) completes under every "
           "channel model";
  case Repair::Change::Deepen:
    return context.costs.hasChannelModel ? fmt::format("channel = eager({})", repair->depth) : "";
  case Repair::Change::None:
    break;
  }
  const RepairWords words(context);
  std::string text;
  for (const RepairEdit &edit : repair->edits)
    text += (text.empty() ? "" : "; then ") + words.of(edit);
  return text;
}

} // namespace sluice
