#include "Sema/Evaluate.h"

#include "Support/Words.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>
#include <limits>
#include <numeric>

namespace sluice {

/// Expressions nest through calls of functions; beyond this the stack would be at stake.
static constexpr unsigned maxDepth = 1000;

Evaluator::Evaluator(const CheckedFile &file, Diagnostics &diagnostics)
    : diagnostics(diagnostics), file(file), slots(file.code.slotNames.size()), isOpen(file.settings.size()) {
  limitWork(1'000'000); // plenty for values; who runs programs says more
  if (file.splits != noSlot)
    set(file.splits, 1); // until a program says more
}

void Evaluator::limitWork(uint64_t maxOps) {
  limit = budget = static_cast<int64_t>(maxOps) + 100'000;
  isExhausted = false;
}

bool Evaluator::exhausted(Span span) {
  // Whatever is asked for after this fails too, without a word.
  budget = 0;
  if (!std::exchange(isExhausted, true))
    diagnostics
        .report(Rule::TooManyOps, span,
                {{"limit", std::to_string(limit)},
                 {"what", "turns of loops and calls"},
                 {"where", ", and hardly an op from them"}})
        .fix.message = "a smaller range, or a larger --max-ops";
  return false;
}

std::string Evaluator::str(const Value &value) const {
  switch (value.kind) {
  case Value::Kind::Nothing:
    return "nothing";
  case Value::Kind::Number:
    return format(Quantity{value.number, value.dimension});
  case Value::Kind::Boolean:
    return value.isTrue() ? "true" : "false";
  case Value::Kind::Text:
    return fmt::format("\"{}\"", text(value).str());
  case Value::Kind::List: {
    std::vector<std::string> parts;
    for (const Value &element : list(value))
      parts.push_back(str(element));
    return "[" + llvm::join(parts, ", ") + "]";
  }
  }
  return "";
}

Value Evaluator::unlike(const Node &node, llvm::StringRef operation, const Value &a, const Value &b) {
  Finding &finding =
      diagnostics.report(Rule::UnlikeDimensions, node.span,
                         {{"operation", fmt::format("{} {} and {}", operation.str(), kindOf(a), kindOf(b))},
                          {"values", fmt::format("{}, {}", str(a), str(b))}});
  bool ticks = a.dimension == timeDimension || b.dimension == timeDimension;
  finding.fix.message = ticks && (a.dimension.isNone() || b.dimension.isNone())
                            ? "write a unit after the plain number (ticks and seconds do not mix)"
                            : "give both sides the same dimension";
  return {};
}

Value Evaluator::unsuited(const Node &node, llvm::StringRef operation, const Value &value) {
  diagnostics.report(Rule::UnlikeDimensions, node.span,
                     {{"operation", fmt::format("{} a {}", operation.str(), kindOf(value))},
                      {"values", value.kind == Value::Kind::List ? "a list" : str(value)}});
  return {};
}

Value Evaluator::overflow(const Node &node) {
  diagnostics
      .report(Rule::ValueOutOfRange, node.span, {{"what", "the value does not fit an exact 64-bit fraction"}})
      .fix.message = "smaller numbers, or a coarser unit";
  return {};
}

Value Evaluator::eval(NodeId id) {
  const Node &node = file.code.nodes[id];
  if (++depth > maxDepth) {
    --depth;
    diagnostics.report(Rule::ValueOutOfRange, node.span, {{"what", "the expression nests too deep"}});
    return {};
  }
  auto leave = llvm::make_scope_exit([&] { --depth; });
  switch (node.op) {
  case NodeOp::Constant:
    return file.code.constants[node.a];
  case NodeOp::Slot:
    return slots[node.a];
  case NodeOp::Negate: {
    Value value = eval(node.a);
    if (value && !value.isNumber())
      return unsuited(node, "negate", value);
    value.number.num = -value.number.num;
    return value;
  }
  case NodeOp::Not: {
    auto value = evalBoolean(node.a, "the operand of !");
    return value ? Value::boolean(!*value) : Value{};
  }
  case NodeOp::And:
  case NodeOp::Or: {
    auto left = evalBoolean(node.a, "the left side");
    if (!left)
      return {};
    if (*left == (node.op == NodeOp::Or))
      return Value::boolean(*left);
    auto right = evalBoolean(node.b, "the right side");
    return right ? Value::boolean(*right) : Value{};
  }
  case NodeOp::Conditional: {
    auto condition = evalBoolean(node.a, "the condition");
    return condition ? eval(*condition ? node.b : node.c) : Value{};
  }
  case NodeOp::List: {
    auto elements = evalOperands(node);
    if (!elements)
      return {};
    lists.push_back(std::move(*elements));
    return Value::indexed(Value::Kind::List, lists.size() - 1);
  }
  case NodeOp::Index:
    return index(node);
  case NodeOp::Call:
    return call(node);
  case NodeOp::Builtin: {
    auto arguments = evalOperands(node);
    return arguments ? builtin(node, *arguments) : Value{};
  }
  case NodeOp::Comprehension:
    return comprehension(node);
  case NodeOp::Setting: {
    auto arguments = evalOperands(node);
    return arguments ? evalSetting(node.a, *arguments, node.span) : Value{};
  }
  case NodeOp::Figure: {
    auto arguments = evalOperands(node);
    return arguments && figure ? figure(file.code.texts[node.a], *arguments, node.span) : Value{};
  }
  case NodeOp::Measured: {
    auto arguments = evalOperands(node);
    return arguments ? measured(node, *arguments) : Value{};
  }
  default: {
    Value a = eval(node.a);
    if (!a)
      return {};
    Value b = eval(node.b);
    if (!b)
      return {};
    bool isComparison = node.op >= NodeOp::Less && node.op <= NodeOp::NotEqual;
    return isComparison ? compare(node, a, b) : arithmetic(node, a, b);
  }
  }
}

/// The dimension of a product (`sign` 1) or quotient (-1); false if a power leaves the range of a Dimension.
static bool combine(Dimension a, Dimension b, int sign, Dimension &result) {
  int time = a.time + sign * b.time, size = a.size + sign * b.size;
  result = {static_cast<int8_t>(time), static_cast<int8_t>(size)};
  return result.time == time && result.size == size;
}

Value Evaluator::tooHighPower(const Node &node) {
  diagnostics.report(Rule::ValueOutOfRange, node.span,
                     {{"what", "the expression multiplies too many units"}});
  return {};
}

Value Evaluator::arithmetic(const Node &node, const Value &a, const Value &b) {
  static constexpr llvm::StringRef names[] = {"add", "subtract", "multiply", "divide"};
  llvm::StringRef operation = names[static_cast<unsigned>(node.op) - static_cast<unsigned>(NodeOp::Add)];
  if (!a.isNumber() || !b.isNumber())
    return unlike(node, operation, a, b);
  std::optional<Rational> result;
  Dimension dimension = a.dimension;
  switch (node.op) {
  case NodeOp::Add:
  case NodeOp::Subtract:
    if (a.dimension != b.dimension) {
      // A zero has every dimension.
      if (a.number.num != 0 && b.number.num != 0)
        return unlike(node, operation, a, b);
      if (a.number.num == 0)
        dimension = b.dimension;
    }
    result = node.op == NodeOp::Add ? add(a.number, b.number) : subtract(a.number, b.number);
    break;
  case NodeOp::Multiply:
    if (!combine(a.dimension, b.dimension, 1, dimension))
      return tooHighPower(node);
    result = multiply(a.number, b.number);
    break;
  default:
    if (b.number.num == 0) {
      diagnostics.report(Rule::ValueOutOfRange, node.span, {{"what", "the expression divides by zero"}});
      return {};
    }
    if (!combine(a.dimension, b.dimension, -1, dimension))
      return tooHighPower(node);
    result = divide(a.number, b.number);
  }
  return result ? Value::of(*result, dimension) : overflow(node);
}

Value Evaluator::compare(const Node &node, const Value &a, const Value &b) {
  bool equality = node.op == NodeOp::Equal || node.op == NodeOp::NotEqual;
  if (a.kind != b.kind || (!equality && !a.isNumber()))
    return unlike(node, "compare", a, b);
  if (a.isNumber() && a.dimension != b.dimension && a.number.num != 0 && b.number.num != 0)
    return unlike(node, "compare", a, b);
  switch (node.op) {
  case NodeOp::Less:
    return Value::boolean(a.number < b.number);
  case NodeOp::LessEqual:
    return Value::boolean(a.number <= b.number);
  case NodeOp::Greater:
    return Value::boolean(a.number > b.number);
  case NodeOp::GreaterEqual:
    return Value::boolean(a.number >= b.number);
  case NodeOp::Equal:
    break;
  default: {
    Value same = compare({NodeOp::Equal, node.span}, a, b);
    return same ? Value::boolean(!same.isTrue()) : same;
  }
  }
  if (a.kind == Value::Kind::Text)
    return Value::boolean(text(a) == text(b));
  if (a.kind != Value::Kind::List)
    return Value::boolean(a.number == b.number);
  llvm::ArrayRef<Value> left = list(a), right = list(b);
  bool same = left.size() == right.size();
  for (size_t i = 0; i < left.size() && same; ++i) {
    Value equal = compare(node, left[i], right[i]);
    if (!equal)
      return {};
    same = equal.isTrue();
  }
  return Value::boolean(same);
}

std::optional<std::vector<Value>> Evaluator::evalOperands(const Node &node) {
  std::vector<Value> values;
  values.reserve(node.c);
  for (uint32_t i = 0; i < node.c; ++i) {
    values.push_back(eval(file.code.operands[node.b + i]));
    if (!values.back())
      return std::nullopt;
  }
  return values;
}

Value Evaluator::call(const Node &node) {
  auto arguments = evalOperands(node);
  if (!arguments || !spend(node.span, slowWork))
    return {};
  const FunctionCode &function = file.code.functions[node.a];
  for (size_t i = 0; i < arguments->size(); ++i)
    slots[function.parameters[i]] = (*arguments)[i];
  return eval(function.body);
}

Value Evaluator::index(const Node &node) {
  Value of = eval(node.a);
  if (!of)
    return {};
  if (of.kind != Value::Kind::List)
    return unsuited(node, "index", of);
  auto at = evalInteger(node.b, "the index");
  if (!at)
    return {};
  llvm::ArrayRef<Value> elements = list(of);
  if (*at < 0 || *at >= static_cast<int64_t>(elements.size())) {
    diagnostics.report(Rule::ValueOutOfRange, node.span,
                       {{"what", fmt::format("index {} is outside a list of {}", *at, elements.size())}});
    return {};
  }
  return elements[static_cast<size_t>(*at)];
}

Value Evaluator::evalSetting(uint32_t which, llvm::ArrayRef<Value> arguments, Span use) {
  const CheckedSetting &setting = file.settings[which];
  if (!spend(use, slowWork))
    return {};
  if (!held.empty())
    if (auto found = held.find(which); found != held.end())
      return found->second;
  if (setting.value == noNode) {
    diagnostics.report(Rule::ValueMissing, use,
                       {{"figure", "this expression"}, {"setting", setting.name + " as a value"}});
    return {};
  }
  if (isOpen[which]) {
    diagnostics.report(Rule::WrongArguments, setting.span,
                       {{"what", fmt::format("{} calls itself", setting.name)}});
    return {};
  }
  if (arguments.size() < setting.parameters.size()) {
    diagnostics.report(Rule::WrongArguments, use,
                       {{"what", fmt::format("{} takes {} here, found {}", setting.name,
                                             counted(setting.parameters.size(), "argument", "arguments"),
                                             arguments.size())}});
    return {};
  }
  // Settings call each other (`backward(s) = 2 * forward(s)`), so their slots are saved around the body.
  std::vector<Value> saved;
  for (size_t i = 0; i < setting.parameters.size(); ++i)
    saved.push_back(std::exchange(slots[setting.parameters[i]], arguments[i]));
  isOpen[which] = true;
  Value value = eval(setting.value);
  isOpen[which] = false;
  for (size_t i = 0; i < saved.size(); ++i)
    slots[setting.parameters[i]] = saved[i];
  if (value.kind != Value::Kind::List || arguments.empty() || !arguments[0].isPlainInteger())
    return value;
  llvm::ArrayRef<Value> elements = list(value);
  int64_t at = arguments[0].number.num;
  if (at >= 0 && at < static_cast<int64_t>(elements.size()))
    return elements[static_cast<size_t>(at)];
  diagnostics
      .report(Rule::SizesDisagree, setting.span,
              {{"covers", fmt::format("{} lists {} stages", setting.name, elements.size())},
               {"declaration", fmt::format("stage {} needs a value", at)}})
      .fix.message = "one value per stage";
  return {};
}

} // namespace sluice
