// Functions of the language itself, over numbers and lists.
#include "Sema/Evaluate.h"

#include <fmt/format.h>
#include <numeric>

namespace sluice {

Value Evaluator::builtin(const Node &node, llvm::ArrayRef<Value> arguments) {
  auto which = static_cast<Builtin>(node.a);
  if (which == Builtin::Len) {
    if (arguments[0].kind != Value::Kind::List)
      return unsuited(node, "count the elements of", arguments[0]);
    return Value::of(Rational(static_cast<int64_t>(list(arguments[0]).size())));
  }
  std::vector<Value> elements(arguments.begin(), arguments.end());
  if (elements.size() == 1 && elements[0].kind == Value::Kind::List)
    elements.assign(list(arguments[0]).begin(), list(arguments[0]).end());
  for (const Value &value : elements)
    if (!value.isNumber())
      return unsuited(node, "compute with", value);
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
      return unsuited(node, "round", elements[0]);
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
    for (const Value &value : {a, b}) {
      if (!value.dimension.isNone())
        return unsuited(node, "take the greatest common divisor of", value);
      if (!value.number.isInteger()) {
        diagnostics.report(Rule::NotAnInteger, node.span,
                           {{"what", "an argument of gcd"}, {"value", value.number.str()}});
        return {};
      }
    }
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
                         {{"what", "the range has more than 10000000 values"}});
      return {};
    }
    set(node.c, i);
    elements.push_back(eval(parts[0]));
    if (!elements.back() || !spend(node.span, slowWork))
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

} // namespace sluice
