// Expressions after their names are resolved: nodes in one flat array, operands by index, variables as
// slots of one frame. There is no recursion in the language, so every parameter and variable has a slot
// of its own and a call is an assignment followed by its body.
#pragma once

#include "Sema/Value.h"
#include "Support/Source.h"

#include <string>
#include <vector>

namespace sluice {

using NodeId = uint32_t;
using SlotId = uint32_t;
inline constexpr NodeId noNode = ~0u;
inline constexpr SlotId noSlot = ~0u;

enum class NodeOp : uint8_t {
  Constant, ///< a: index into constants
  Slot,     ///< a: slot
  Negate,
  Not,
  Add,
  Subtract,
  Multiply,
  Divide,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  Equal,
  NotEqual,
  And,
  Or,
  Conditional,   ///< a ? b : c
  List,          ///< operands b.. b+c
  Index,         ///< a[b]
  Call,          ///< function a, operands b.. b+c
  Builtin,       ///< Builtin a, operands b.. b+c
  Comprehension, ///< Builtin a (sum, min, max); operands b..b+4: element, first, last, step; slot in c
  Setting,       ///< setting a of model or training, operands b.. b+c
  Figure,        ///< figure with name a in texts, operands b.. b+c
  Measured,      ///< measured time of op a of the profile, operands b.. b+c: stage, perhaps samples
};

enum class Builtin : uint8_t { Div, Mod, Gcd, Min, Max, Abs, Ceil, Floor, Len, Sum };

struct Node {
  NodeOp op;
  Span span;
  uint32_t a = 0, b = 0, c = 0;
};

struct FunctionCode {
  std::string name;
  std::vector<SlotId> parameters;
  NodeId body = noNode;
};

struct Code {
  std::vector<Node> nodes;
  std::vector<uint32_t> operands; ///< Operand lists of nodes that take any number.
  std::vector<Value> constants;
  std::vector<std::string> texts;
  std::vector<std::string> slotNames; ///< One per slot: its variable's name, for messages.
  std::vector<FunctionCode> functions;

  NodeId add(Node node) {
    nodes.push_back(node);
    return static_cast<NodeId>(nodes.size() - 1);
  }
  SlotId addSlot(std::string name) {
    slotNames.push_back(std::move(name));
    return static_cast<SlotId>(slotNames.size() - 1);
  }
  uint32_t addText(std::string text) {
    texts.push_back(std::move(text));
    return static_cast<uint32_t>(texts.size() - 1);
  }
};

/// True if `node` reads `slot` (directly; a function sees a variable only through its arguments).
bool reads(const Code &code, NodeId node, SlotId slot);
/// Slots that `node` reads, in order of appearance, each once.
std::vector<SlotId> slotsOf(const Code &code, NodeId node);

} // namespace sluice
