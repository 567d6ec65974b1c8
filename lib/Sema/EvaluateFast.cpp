// The inner loops of programs: plain whole numbers, no lists, no dimensions, no findings. Whatever does not
// fit is left to the exact evaluation.
#include "Sema/Evaluate.h"

#include <algorithm>
#include <limits>

namespace sluice {

/// The least 64-bit number has no negative, so it is no value of the language.
static bool isValue(int64_t number) { return number != std::numeric_limits<int64_t>::min(); }

bool Evaluator::tryInteger(NodeId id, int64_t &result) {
  const Node &node = file.code.nodes[id];
  int64_t a, b;
  switch (node.op) {
  case NodeOp::Constant:
    if (const Value &value = file.code.constants[node.a]; value.isPlainInteger())
      return result = value.number.num, true;
    return false;
  case NodeOp::Slot:
    if (const Value &value = slots[node.a]; value.isPlainInteger())
      return result = value.number.num, true;
    return false;
  case NodeOp::Add:
    return tryInteger(node.a, a) && tryInteger(node.b, b) && !__builtin_add_overflow(a, b, &result) &&
           isValue(result);
  case NodeOp::Subtract:
    return tryInteger(node.a, a) && tryInteger(node.b, b) && !__builtin_sub_overflow(a, b, &result) &&
           isValue(result);
  case NodeOp::Multiply:
    return tryInteger(node.a, a) && tryInteger(node.b, b) && !__builtin_mul_overflow(a, b, &result) &&
           isValue(result);
  case NodeOp::Builtin: {
    if (node.c != 2)
      return false;
    const uint32_t *operands = &file.code.operands[node.b];
    if (!tryInteger(operands[0], a) || !tryInteger(operands[1], b))
      return false;
    switch (static_cast<Builtin>(node.a)) {
    case Builtin::Min:
      return result = std::min(a, b), true;
    case Builtin::Max:
      return result = std::max(a, b), true;
    case Builtin::Div:
      if (b <= 0 || a < 0)
        return false;
      return result = a / b, true;
    case Builtin::Mod:
      if (b <= 0 || a < 0)
        return false;
      return result = a % b, true;
    default:
      return false;
    }
  }
  case NodeOp::Conditional: {
    bool condition;
    return tryBoolean(node.a, condition) && tryInteger(condition ? node.b : node.c, result);
  }
  case NodeOp::Call: {
    constexpr uint32_t most = 4, mostNested = 8;
    if (node.c > most || quickCalls == mostNested || budget <= 0)
      return false;
    --budget;
    int64_t arguments[most];
    for (uint32_t i = 0; i < node.c; ++i)
      if (!tryInteger(file.code.operands[node.b + i], arguments[i]))
        return false;
    const FunctionCode &function = file.code.functions[node.a];
    for (uint32_t i = 0; i < node.c; ++i)
      set(function.parameters[i], arguments[i]);
    ++quickCalls;
    bool known = tryInteger(function.body, result);
    --quickCalls;
    return known;
  }
  default:
    return false;
  }
}

bool Evaluator::tryBoolean(NodeId id, bool &result) {
  const Node &node = file.code.nodes[id];
  bool left;
  switch (node.op) {
  case NodeOp::And:
  case NodeOp::Or:
    if (!tryBoolean(node.a, left))
      return false;
    if (left == (node.op == NodeOp::Or))
      return result = left, true;
    return tryBoolean(node.b, result);
  case NodeOp::Not:
    if (!tryBoolean(node.a, left))
      return false;
    return result = !left, true;
  case NodeOp::Less:
  case NodeOp::LessEqual:
  case NodeOp::Greater:
  case NodeOp::GreaterEqual:
  case NodeOp::Equal:
  case NodeOp::NotEqual:
    break;
  default:
    return false;
  }
  int64_t a, b;
  if (!tryInteger(node.a, a) || !tryInteger(node.b, b))
    return false;
  switch (node.op) {
  case NodeOp::Less:
    return result = a < b, true;
  case NodeOp::LessEqual:
    return result = a <= b, true;
  case NodeOp::Greater:
    return result = a > b, true;
  case NodeOp::GreaterEqual:
    return result = a >= b, true;
  case NodeOp::Equal:
    return result = a == b, true;
  default:
    return result = a != b, true;
  }
}

bool Evaluator::assign(SlotId slot, NodeId node) {
  if (int64_t fast; tryInteger(node, fast)) {
    set(slot, fast);
    return true;
  }
  size_t mark = listMark();
  slots[slot] = eval(node);
  if (slots[slot].kind != Value::Kind::List)
    releaseLists(mark);
  return static_cast<bool>(slots[slot]);
}

} // namespace sluice
