#include "Sema/Evaluate.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>
#include <limits>
#include <numeric>

namespace sluice {

/// Expressions nest through calls of functions; beyond this the stack would be at stake.
static constexpr unsigned maxDepth = 5000;

Evaluator::Evaluator(CheckedFile &file, Diagnostics &diagnostics)
    : diagnostics(diagnostics), file(file), slots(file.code.slotNames.size()) {
  limitWork(200'000'000);
}

void Evaluator::limitWork(uint64_t maxOps) {
  limit = budget = 2 * static_cast<int64_t>(maxOps) + 100'000;
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
  case Value::Kind::Word:
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

/// What a value is, for messages about operations that do not take it.
static std::string kindOf(const Value &value) {
  switch (value.kind) {
  case Value::Kind::Number:
    return value.dimension.str();
  case Value::Kind::Boolean:
    return "truth value";
  case Value::Kind::List:
    return "list";
  default:
    return "text";
  }
}

Value Evaluator::unlike(const Node &node, llvm::StringRef operation, const Value &a, const Value &b) {
  Finding &finding = diagnostics.report(
      Rule::UnlikeDimensions, node.span,
      {{"operation", fmt::format("{} {} and {}", operation.str(), kindOf(a), kindOf(b))},
       {"values", fmt::format("{}, {}", str(a), str(b))}});
  bool ticks = a.dimension == timeDimension || b.dimension == timeDimension;
  finding.fix.message = ticks && (a.dimension.isNone() || b.dimension.isNone())
                            ? "write a unit after the plain number (ticks and seconds do not mix)"
                            : "give both sides the same dimension";
  return {};
}

Value Evaluator::overflow(const Node &node) {
  diagnostics
      .report(Rule::ValueOutOfRange, node.span, {{"what", "the value does not fit an exact 64-bit fraction"}})
      .fix.message = "smaller numbers, or a coarser unit";
  return {};
}

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
    return tryInteger(node.a, a) && tryInteger(node.b, b) && !__builtin_add_overflow(a, b, &result);
  case NodeOp::Subtract:
    return tryInteger(node.a, a) && tryInteger(node.b, b) && !__builtin_sub_overflow(a, b, &result);
  case NodeOp::Multiply:
    return tryInteger(node.a, a) && tryInteger(node.b, b) && !__builtin_mul_overflow(a, b, &result);
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
      return unlike(node, "negate", value, value);
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
    dimension.time = static_cast<int8_t>(a.dimension.time + b.dimension.time);
    dimension.size = static_cast<int8_t>(a.dimension.size + b.dimension.size);
    result = multiply(a.number, b.number);
    break;
  default:
    if (b.number.num == 0) {
      diagnostics.report(Rule::ValueOutOfRange, node.span, {{"what", "the expression divides by zero"}});
      return {};
    }
    dimension.time = static_cast<int8_t>(a.dimension.time - b.dimension.time);
    dimension.size = static_cast<int8_t>(a.dimension.size - b.dimension.size);
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
  default: {
    bool same = a.kind == Value::Kind::List || a.kind == Value::Kind::Text ? str(a) == str(b)
                                                                         : a.number == b.number;
    return Value::boolean(same == (node.op == NodeOp::Equal));
  }
  }
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
  if (!arguments || !spend(node.span))
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
    return unlike(node, "index", of, of);
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

Value Evaluator::builtin(const Node &node, llvm::ArrayRef<Value> arguments) {
  auto which = static_cast<Builtin>(node.a);
  if (which == Builtin::Len) {
    if (arguments[0].kind != Value::Kind::List)
      return unlike(node, "count", arguments[0], arguments[0]);
    return Value::of(Rational(static_cast<int64_t>(list(arguments[0]).size())));
  }
  std::vector<Value> elements(arguments.begin(), arguments.end());
  if (elements.size() == 1 && elements[0].kind == Value::Kind::List)
    elements.assign(list(arguments[0]).begin(), list(arguments[0]).end());
  for (const Value &value : elements)
    if (!value.isNumber())
      return unlike(node, "take a number from", value, value);
  auto fold = [&](NodeOp comparison) -> Value {
    if (elements.empty()) {
      diagnostics.report(Rule::ValueOutOfRange, node.span, {{"what", "the list is empty"}});
      return {};
    }
    Value best = elements[0];
    for (const Value &value : llvm::ArrayRef(elements).drop_front()) {
      Value smaller = compare({comparison, node.span}, value, best);
      if (!smaller)
        return {};
      if (smaller.isTrue())
        best = value;
    }
    return best;
  };
  switch (which) {
  case Builtin::Min:
    return fold(NodeOp::Less);
  case Builtin::Max:
    return fold(NodeOp::Greater);
  case Builtin::Sum: {
    Value sum = Value::of(Rational(0));
    for (const Value &value : elements)
      if (sum = arithmetic({NodeOp::Add, node.span}, sum, value); !sum)
        return {};
    return sum;
  }
  case Builtin::Abs: {
    Value value = elements[0];
    value.number.num = std::abs(value.number.num);
    return value;
  }
  case Builtin::Ceil:
  case Builtin::Floor: {
    if (!elements[0].dimension.isNone())
      return unlike(node, "round", elements[0], elements[0]);
    const Rational &value = elements[0].number;
    return Value::of(Rational(which == Builtin::Ceil ? value.ceil() : value.floor()));
  }
  default:
    break;
  }
  // div, mod, gcd
  const Value &a = elements[0], &b = elements[1];
  if (a.dimension != b.dimension)
    return unlike(node, "divide", a, b);
  if (which == Builtin::Gcd) {
    if (!a.number.isInteger() || !b.number.isInteger() || !a.dimension.isNone())
      return unlike(node, "take the greatest common divisor of", a, b);
    return Value::of(Rational(std::gcd(a.number.num, b.number.num)));
  }
  if (b.number.num == 0) {
    diagnostics.report(Rule::ValueOutOfRange, node.span, {{"what", "the expression divides by zero"}});
    return {};
  }
  auto quotient = divide(a.number, b.number);
  if (!quotient)
    return overflow(node);
  Rational whole(quotient->floor());
  if (which == Builtin::Div)
    return Value::of(whole);
  auto product = multiply(whole, b.number);
  auto rest = product ? subtract(a.number, *product) : std::nullopt;
  return rest ? Value::of(*rest, a.dimension) : overflow(node);
}

Value Evaluator::comprehension(const Node &node) {
  const uint32_t *parts = &file.code.operands[node.b];
  auto bounds = evalRange({parts[1], parts[2], parts[3]});
  if (!bounds)
    return {};
  size_t mark = listMark();
  std::vector<Value> elements;
  for (int64_t i = bounds->first; i < bounds->last;) {
    if (elements.size() == 10'000'000) {
      diagnostics.report(Rule::ValueOutOfRange, node.span,
                         {{"what", "the list has more than 10000000 elements"}});
      return {};
    }
    set(node.c, i);
    elements.push_back(eval(parts[0]));
    if (!elements.back() || !spend(node.span))
      return {};
    if (elements.back().kind != Value::Kind::List)
      releaseLists(mark);
    if (__builtin_add_overflow(i, bounds->step, &i))
      break;
  }
  lists.push_back(std::move(elements));
  Value value = builtin(node, Value::indexed(Value::Kind::List, lists.size() - 1));
  releaseLists(mark); // sums, least and greatest are numbers
  return value;
}

Value Evaluator::evalSetting(uint32_t which, llvm::ArrayRef<Value> arguments, Span use) {
  CheckedSetting &setting = file.settings[which];
  if (!spend(use))
    return {};
  if (setting.value == noNode) {
    diagnostics.report(Rule::ValueMissing, use,
                       {{"figure", "this expression"}, {"setting", setting.name + " as a value"}});
    return {};
  }
  if (setting.isBeingEvaluated) {
    diagnostics.report(Rule::WrongArguments, setting.span,
                       {{"what", fmt::format("{} calls itself", setting.name)}});
    return {};
  }
  // Settings call each other (`backward(s) = 2 * forward(s)`), so their slots are saved around the body.
  std::vector<Value> saved;
  for (size_t i = 0; i < setting.parameters.size(); ++i) {
    saved.push_back(slots[setting.parameters[i]]);
    if (i < arguments.size())
      slots[setting.parameters[i]] = arguments[i];
  }
  setting.isBeingEvaluated = true;
  Value value = eval(setting.value);
  setting.isBeingEvaluated = false;
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

std::optional<int64_t> Evaluator::evalInteger(NodeId node, llvm::StringRef what) {
  int64_t fast;
  if (tryInteger(node, fast))
    return fast;
  size_t mark = lists.size();
  Value value = eval(node);
  lists.resize(mark);
  if (!value)
    return std::nullopt;
  if (value.isPlainInteger())
    return value.number.num;
  Span span = file.code.nodes[node].span;
  if (!value.isNumber() || !value.dimension.isNone()) {
    diagnostics.report(Rule::UnlikeDimensions, span,
                       {{"operation", fmt::format("use a {} as {}", kindOf(value), what.str())},
                        {"values", value.kind == Value::Kind::List ? "a list" : str(value)}});
    return std::nullopt;
  }
  diagnostics
      .report(Rule::NotAnInteger, span, {{"what", what.str()}, {"value", value.number.str()}})
      .fix.message = fmt::format("div(...) or floor(...) for {}, ceil(...) for {}", value.number.floor(),
                                 value.number.ceil());
  return std::nullopt;
}

std::optional<bool> Evaluator::evalBoolean(NodeId node, llvm::StringRef what) {
  if (bool fast; tryBoolean(node, fast))
    return fast;
  size_t mark = lists.size();
  Value value = eval(node);
  lists.resize(mark);
  if (!value)
    return std::nullopt;
  if (value.kind == Value::Kind::Boolean)
    return value.isTrue();
  diagnostics.report(Rule::UnlikeDimensions, file.code.nodes[node].span,
                     {{"operation", fmt::format("use a {} as {}", kindOf(value), what.str())},
                      {"values", value.kind == Value::Kind::List ? "a list" : str(value)}})
      .fix.message = "write a comparison";
  return std::nullopt;
}

std::optional<Rational> Evaluator::evalQuantity(NodeId node, Dimension dimension, llvm::StringRef what) {
  size_t mark = lists.size();
  Value value = eval(node);
  std::string shown = value ? str(value) : "";
  lists.resize(mark);
  if (!value)
    return std::nullopt;
  if (value.isNumber() && (value.dimension == dimension || value.number.num == 0))
    return value.number;
  diagnostics.report(Rule::UnlikeDimensions, file.code.nodes[node].span,
                     {{"operation", fmt::format("use a {} as {}", kindOf(value), what.str())},
                      {"values", shown}})
      .fix.message = fmt::format("a {}", dimension.str());
  return std::nullopt;
}

std::optional<Evaluator::Bounds> Evaluator::evalRange(const CheckedRange &range) {
  auto first = evalInteger(range.first, "the first value of the range");
  auto last = evalInteger(range.last, "the end of the range");
  std::optional<int64_t> step = 1;
  if (range.step != noNode)
    step = evalInteger(range.step, "the step");
  if (!first || !last || !step)
    return std::nullopt;
  if (*step <= 0) {
    diagnostics
        .report(Rule::ValueOutOfRange, file.code.nodes[range.step].span,
                {{"what", fmt::format("the step is {}, below 1", *step)}})
        .fix.message = "reversed(a..b) counts down";
    return std::nullopt;
  }
  return Bounds{*first, *last, *step};
}

} // namespace sluice
