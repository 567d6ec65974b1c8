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

static std::string slots(const Instruction &row, const ExecutorTables &tables) {
  const std::string a = number(row.a), b = number(row.b), c = number(row.c), d = number(row.d);
  switch (row.op) {
  case RuntimeOp::Load:
    return fmt::format("into boundary {}", a);
  case RuntimeOp::Forward:
    return fmt::format("boundary {} -> {}{}", a, b, row.c == runtime::noSlot ? "" : ", saved " + c);
  case RuntimeOp::Loss:
    return fmt::format("output {}, its gradient {}", a, b);
  case RuntimeOp::Backward:
    return fmt::format("gradient {} -> {}, saved {}", a, b, c);
  case RuntimeOp::BackwardInput:
    return fmt::format("gradient {} -> {}, saved {}, pending {}", a, b, c, d);
  case RuntimeOp::BackwardWeight:
    return fmt::format("pending {}", d);
  case RuntimeOp::Recompute:
    return fmt::format("input {}, saved {}", a, c);
  case RuntimeOp::Drop:
    return row.c == runtime::noSlot ? "the input" : fmt::format("saved {}", c);
  case RuntimeOp::SendActivation:
  case RuntimeOp::SendGradient:
    return fmt::format("boundary {} to device {}", a, tables.channels[row.b].to);
  case RuntimeOp::ReceiveActivation:
  case RuntimeOp::ReceiveGradient:
    return fmt::format("boundary {} from device {}", a, tables.channels[row.b].from);
  default:
    return "";
  }
  return "";
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
  return words;
}

std::string cppRow(const Instruction &row, size_t index, const ExecutorTables &tables) {
  const std::string op = std::string("{Op::") + enumerator(row.op) + ",";
  std::string call = fmt::format("{}({}", name(row.op), row.stage);
  call += row.microbatch == runtime::noMicrobatch ? ")" : fmt::format(", {})", row.microbatch);
  std::string words = slots(row, tables);
  if (!words.empty())
    words = ", " + words;
  return fmt::format("{:<23} {}, {:>3}, {:>5}, {:>4}, {:>4}, {:>4}, {:>4}}}, // {}: {}{}{}", op, row.flags,
                     row.stage, number(row.microbatch), number(row.a), number(row.b), number(row.c),
                     number(row.d), index, call, words, flagWords(row));
}

} // namespace sluice
