// Values of the kind that a place asks for: whole numbers, truth values, quantities, ranges.
#include "Sema/Evaluate.h"

#include <fmt/format.h>

namespace sluice {

std::string kindOf(const Value &value) {
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
  diagnostics.report(Rule::NotAnInteger, span, {{"what", what.str()}, {"value", value.number.str()}})
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
  diagnostics
      .report(Rule::UnlikeDimensions, file.code.nodes[node].span,
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
  diagnostics
      .report(Rule::UnlikeDimensions, file.code.nodes[node].span,
              {{"operation", fmt::format("use a {} as {}", kindOf(value), what.str())}, {"values", shown}})
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
