#include "Emit/CppRows.h"

#include <fmt/format.h>

namespace sluice {

using runtime::Instruction;
using RuntimeOp = runtime::Op;

static const char *enumerator(RuntimeOp op) {
  static constexpr const char *names[runtime::opCount] = {
      "Load",           "Forward",         "Loss",    "Backward",       "BackwardInput",
      "BackwardWeight", "Recompute",       "Drop",    "Offload",        "Reload",
      "Zero",           "Scale",           "Reduce",  "ReduceTied",     "Norm",
      "Update",         "Unshard",         "Reshard", "SendActivation", "ReceiveActivation",
      "SendGradient",   "ReceiveGradient", "Wait",    "SkipInput",      "SkipOutput",
      "Carry",          "Weights",         "Factor"};
  return names[static_cast<unsigned>(op)];
}

static std::string number(uint32_t value) {
  return value == runtime::noSlot ? "none" : fmt::to_string(value);
}

static std::string fractionText(const Fraction &fraction) {
  return fraction.denominator == 1 ? fmt::to_string(fraction.numerator)
                                   : fmt::format("{}/{}", fraction.numerator, fraction.denominator);
}

/// The op as a schedule writes it, with what it needs to be named.
static std::string call(RuntimeOp op, const Instruction &row, const ExecutorTables &tables) {
  if (op == RuntimeOp::Norm)
    return row.flags & runtime::Local ? "norm local" : "norm";
  if (op == RuntimeOp::ReduceTied)
    return fmt::format("reduce_tied({})", tables.ties[row.d].name);
  if (op == RuntimeOp::Scale)
    return fmt::format("scale({}, {})", row.stage, fractionText(tables.factors[row.d]));
  if (row.microbatch == runtime::noMicrobatch)
    return fmt::format("{}({})", name(op), row.stage);
  return fmt::format("{}({}, {})", name(op), row.stage, row.microbatch);
}

static std::string edgeText(uint32_t number, const ExecutorTables &tables) {
  const runtime::Skip &edge = tables.skips[number];
  return fmt::format("edge {} -> {}", edge.from, edge.to);
}
/// Of a message: nothing along the chain.
static std::string overSkip(const Instruction &row, const ExecutorTables &tables) {
  return row.c == runtime::noSlot ? "" : " over " + edgeText(row.c, tables);
}

/// An operand: what the row behind it gets.
static std::string operandText(const Instruction &row, const ExecutorTables &tables) {
  switch (row.op) {
  case RuntimeOp::SkipInput:
    return fmt::format("takes boundary {} over {}", row.a, edgeText(row.b, tables));
  case RuntimeOp::SkipOutput:
    return fmt::format("fills boundary {} for {}", row.a, edgeText(row.b, tables));
  case RuntimeOp::Carry:
    return fmt::format("with carry {}", row.a);
  case RuntimeOp::Weights:
    return fmt::format("reads weights {}", row.a);
  default:
    return "times " + fractionText(tables.factors[row.d]);
  }
}

static std::string slots(const Instruction &row, const ExecutorTables &tables) {
  const std::string a = number(row.a), b = number(row.b), c = number(row.c), d = number(row.d);
  switch (row.op) {
  case RuntimeOp::Load:
    return fmt::format(", into boundary {}", a);
  case RuntimeOp::Forward:
    return fmt::format(", boundary {} -> {}{}", a, b, row.c == runtime::noSlot ? "" : ", saved " + c);
  case RuntimeOp::Loss:
    return fmt::format(", output {}, its gradient {}", a, b);
  case RuntimeOp::Backward:
    return fmt::format(", gradient {} -> {}, saved {}", a, b, c);
  case RuntimeOp::BackwardInput:
    return fmt::format(", gradient {} -> {}, saved {}, pending {}", a, b, c, d);
  case RuntimeOp::BackwardWeight:
    return fmt::format(", pending {}", d);
  case RuntimeOp::Recompute:
    return fmt::format(", input {}, saved {}", a, c);
  case RuntimeOp::Drop:
    return row.c != runtime::noSlot   ? ", saved " + c
           : row.d != runtime::noSlot ? ", host " + d
                                      : ", the input";
  case RuntimeOp::Offload:
    return fmt::format(", saved {} -> host {}", c, d);
  case RuntimeOp::Reload:
    return fmt::format(", host {} -> saved {}", d, c);
  case RuntimeOp::Update:
    return row.a == runtime::noSlot ? "" : fmt::format(", weights {} -> {}", a, b);
  case RuntimeOp::SendActivation:
  case RuntimeOp::SendGradient:
    return fmt::format(", boundary {} to device {}{}", a, tables.channels[row.b].to, overSkip(row, tables));
  case RuntimeOp::ReceiveActivation:
  case RuntimeOp::ReceiveGradient:
    return fmt::format(", boundary {} from device {}{}", a, tables.channels[row.b].from,
                       overSkip(row, tables));
  default:
    return "";
  }
}

static std::string flagWords(const Instruction &row) {
  std::string words;
  if (row.flags & runtime::FirstContribution)
    words += ", first contribution";
  if (row.flags & runtime::LastContribution)
    words += ", last contribution";
  if (row.flags & runtime::KeepInput)
    words += ", keep input";
  if (row.flags & runtime::KeepNothing)
    words += ", keep nothing";
  if (row.flags & runtime::GroupFirst)
    words += ", first of a group";
  if (row.flags & runtime::GroupLast)
    words += ", last of its group";
  return words;
}

static std::string comment(const Instruction &row, const ExecutorTables &tables) {
  if (isOperand(row.op))
    return "  " + operandText(row, tables);
  if (row.op == RuntimeOp::Wait)
    return "wait " + call(static_cast<RuntimeOp>(row.b), row, tables);
  return (row.flags & runtime::Started ? "start " : "") + call(row.op, row, tables) + slots(row, tables) +
         flagWords(row);
}

std::string cppRow(const Instruction &row, size_t index, const ExecutorTables &tables) {
  const std::string op = std::string("{Op::") + enumerator(row.op) + ",";
  return fmt::format("{:<23} {}, {:>3}, {:>5}, {:>4}, {:>4}, {:>4}, {:>4}}}, // {}: {}", op, row.flags,
                     row.stage, number(row.microbatch), number(row.a), number(row.b), number(row.c),
                     number(row.d), index, comment(row, tables));
}

} // namespace sluice
