#include "Sema/Analyzer.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

using ast::ExprKind;

NodeId Analyzer::constant(Value value, Span span) {
  result.code.constants.push_back(value);
  return result.code.add({NodeOp::Constant, span, static_cast<uint32_t>(result.code.constants.size() - 1)});
}

/// Appends the children of `expr` as operands b, c of `node`.
NodeId Analyzer::operands(Node node, const ast::Expr &expr) {
  std::vector<NodeId> nodes;
  for (const ast::ExprPtr &child : expr.children)
    nodes.push_back(child ? this->expr(*child) : noNode);
  node.b = static_cast<uint32_t>(result.code.operands.size());
  node.c = static_cast<uint32_t>(nodes.size());
  result.code.operands.insert(result.code.operands.end(), nodes.begin(), nodes.end());
  return result.code.add(node);
}

CheckedRange Analyzer::range(const ast::Range &range, const ast::ExprPtr &step) {
  return {expr(*range.first), expr(*range.last), optional(step)};
}

std::optional<CheckedRange> Analyzer::range(const std::optional<ast::Range> &range) {
  return range ? std::optional(this->range(*range)) : std::nullopt;
}

static std::optional<NodeOp> binaryOp(llvm::StringRef text) {
  static constexpr std::pair<llvm::StringRef, NodeOp> ops[] = {
      {"+", NodeOp::Add},    {"-", NodeOp::Subtract},   {"*", NodeOp::Multiply}, {"/", NodeOp::Divide},
      {"<", NodeOp::Less},   {"<=", NodeOp::LessEqual}, {">", NodeOp::Greater},  {">=", NodeOp::GreaterEqual},
      {"==", NodeOp::Equal}, {"!=", NodeOp::NotEqual},  {"&&", NodeOp::And},     {"||", NodeOp::Or}};
  for (const auto &[name, op] : ops)
    if (name == text)
      return op;
  return std::nullopt;
}

NodeId Analyzer::expr(const ast::Expr &expr) {
  auto child = [&](size_t i) { return this->expr(*expr.children[i]); };
  switch (expr.kind) {
  case ExprKind::Number:
    return constant(Value::of(expr.quantity), expr.span);
  case ExprKind::String:
    return constant(Value::indexed(Value::Kind::Text, result.code.addText(expr.text)), expr.span);
  case ExprKind::Name:
    return name(expr);
  case ExprKind::Call:
    return call(expr);
  case ExprKind::Comprehension:
    return comprehension(expr);
  case ExprKind::Unary: {
    NodeId operand = child(0);
    return result.code.add({expr.text == "-" ? NodeOp::Negate : NodeOp::Not, expr.span, operand});
  }
  case ExprKind::Binary: {
    NodeId left = child(0), right = child(1);
    return result.code.add({*binaryOp(expr.text), expr.span, left, right});
  }
  case ExprKind::Conditional: {
    NodeId condition = child(0), then = child(1), otherwise = child(2);
    return result.code.add({NodeOp::Conditional, expr.span, condition, then, otherwise});
  }
  case ExprKind::List:
    return operands({NodeOp::List, expr.span}, expr);
  case ExprKind::Index: {
    NodeId list = child(0), at = child(1);
    return result.code.add({NodeOp::Index, expr.span, list, at});
  }
  }
  return noNode;
}

std::optional<uint32_t> Analyzer::settingNamed(llvm::StringRef name) const {
  if (hidesSettings)
    return std::nullopt;
  for (const auto *block : {&result.model, &result.training, &result.cluster})
    if (*block)
      if (auto found = (*block)->settings.find(name.str()); found != (*block)->settings.end())
        return found->second;
  return std::nullopt;
}

/// A setting may be asked for more than it depends on: `forward(s, m)` where `forward = 10 ms`.
NodeId Analyzer::settingValue(const ast::Expr &expr, uint32_t setting) {
  for (llvm::StringRef block : {"model", "training", "cluster"})
    if (const SettingInfo *info = findSetting(block, expr.text);
        info && expr.children.size() > info->maxParameters) {
      wrongCount(expr,
                 info->maxParameters == 0 ? "no arguments" : fmt::format("at most {}", info->maxParameters));
      return constant({}, expr.span);
    }
  return operands({NodeOp::Setting, expr.span, setting}, expr);
}

NodeId Analyzer::name(const ast::Expr &expr) {
  if (expr.text == "true" || expr.text == "false")
    return constant(Value::boolean(expr.text == "true"), expr.span);
  if (Entry *entry = lookUp(expr.text)) {
    switch (entry->kind) {
    case Entry::Kind::Slot:
      return result.code.add({NodeOp::Slot, expr.span, entry->index});
    case Entry::Kind::Queue:
      diagnostics.report(Rule::QueueTimeMisused, expr.span, {{"name", expr.text}}).fix.message =
          "look at it with `sluice queue`";
      break;
    case Entry::Kind::Function:
      wrongCount(expr, fmt::format("{} arguments", result.code.functions[entry->index].parameters.size()));
      break;
    case Entry::Kind::Schedule:
      diagnostics.report(Rule::WrongArguments, expr.span,
                         {{"what", fmt::format("{} is a schedule, not a value", expr.text)}});
      break;
    }
    return constant({}, expr.span);
  }
  if (auto sibling = siblingOfLayer(expr))
    return *sibling;
  if (auto setting = settingNamed(expr.text))
    return settingValue(expr, *setting);
  if (isFigureHere(expr.text))
    return figure(expr);
  unknown(expr.span, expr.text,
          expecting == Expecting::Nothing ? llvm::ArrayRef<llvm::StringRef>() : costNames());
  return constant({}, expr.span);
}

void Analyzer::wrongCount(const ast::Expr &expr, const std::string &takes) {
  diagnostics.report(
      Rule::WrongArguments, expr.span,
      {{"what", fmt::format("{} takes {}, found {}", expr.text, takes, expr.children.size())}});
}

namespace {
struct BuiltinInfo {
  llvm::StringRef name;
  Builtin builtin;
  unsigned least, most; ///< Number of arguments; most 0: any.
};
constexpr BuiltinInfo builtins[] = {{"div", Builtin::Div, 2, 2},   {"mod", Builtin::Mod, 2, 2},
                                    {"gcd", Builtin::Gcd, 2, 2},   {"min", Builtin::Min, 1, 0},
                                    {"max", Builtin::Max, 1, 0},   {"abs", Builtin::Abs, 1, 1},
                                    {"ceil", Builtin::Ceil, 1, 1}, {"floor", Builtin::Floor, 1, 1},
                                    {"len", Builtin::Len, 1, 1},   {"sum", Builtin::Sum, 1, 0}};

const BuiltinInfo *findBuiltin(llvm::StringRef name) {
  const auto *found = llvm::find_if(builtins, [&](const BuiltinInfo &info) { return info.name == name; });
  return found == std::end(builtins) ? nullptr : found;
}
} // namespace

NodeId Analyzer::call(const ast::Expr &expr) {
  Entry *entry = lookUp(expr.text);
  if (expr.text == "drain_time" || (entry && entry->kind == Entry::Kind::Queue)) {
    diagnostics.report(Rule::QueueTimeMisused, expr.span, {{"name", expr.text}}).fix.message =
        "look at it with `sluice queue`; a bubble follows from stages and microbatches";
    return constant({}, expr.span);
  }
  for (size_t i = 0; i < expr.argumentNames.size(); ++i)
    if (!expr.argumentNames[i].empty()) {
      diagnostics.report(Rule::WrongArguments, expr.children[i]->span,
                         {{"what", fmt::format("{} takes its arguments by position", expr.text)}});
      return constant({}, expr.span);
    }
  if (entry && entry->kind == Entry::Kind::Function) {
    const FunctionCode &function = result.code.functions[entry->index];
    if (entry->isBeingDefined)
      diagnostics.report(Rule::WrongArguments, expr.span, {{"what", expr.text + " calls itself"}});
    else if (function.parameters.size() != expr.children.size())
      wrongCount(expr, fmt::format("{} argument{}", function.parameters.size(),
                                   function.parameters.size() == 1 ? "" : "s"));
    else
      return operands({NodeOp::Call, expr.span, entry->index}, expr);
    return constant({}, expr.span);
  }
  if (entry) {
    diagnostics.report(Rule::WrongArguments, expr.span,
                       {{"what", fmt::format("{} is no function", expr.text)}});
    return constant({}, expr.span);
  }
  if (const BuiltinInfo *info = findBuiltin(expr.text)) {
    size_t count = expr.children.size();
    if (count < info->least || (info->most != 0 && count > info->most)) {
      wrongCount(expr, info->most == 0
                           ? "one or more arguments"
                           : fmt::format("{} argument{}", info->most, info->most == 1 ? "" : "s"));
      return constant({}, expr.span);
    }
    return operands({NodeOp::Builtin, expr.span, static_cast<uint32_t>(info->builtin)}, expr);
  }
  if (auto setting = settingNamed(expr.text))
    return settingValue(expr, *setting);
  if (isFigureHere(expr.text))
    return figure(expr);
  std::vector<llvm::StringRef> names;
  for (const BuiltinInfo &info : builtins)
    names.push_back(info.name);
  unknown(expr.span, expr.text, names);
  return constant({}, expr.span);
}

NodeId Analyzer::comprehension(const ast::Expr &expr) {
  const BuiltinInfo *info = findBuiltin(expr.text);
  if (!info || info->most != 0) {
    diagnostics
        .report(Rule::WrongArguments, expr.span, {{"what", fmt::format("{} takes no `for`", expr.text)}})
        .fix.message = "sum, min and max do";
    return constant({}, expr.span);
  }
  NodeId id = noNode;
  inScope([&] {
    NodeId first = this->expr(*expr.children[1]), last = this->expr(*expr.children[2]);
    NodeId step = optional(expr.children[3]);
    SlotId slot = declareSlot({expr.variable, expr.span});
    NodeId element = this->expr(*expr.children[0]);
    auto begin = static_cast<uint32_t>(result.code.operands.size());
    result.code.operands.insert(result.code.operands.end(), {element, first, last, step});
    id = result.code.add(
        {NodeOp::Comprehension, expr.span, static_cast<uint32_t>(info->builtin), begin, slot});
  });
  return id;
}

/// Figures may be compared, not decided upon: a closed form holds by what it rests on.
bool Analyzer::isFigureHere(llvm::StringRef name) const {
  return expecting == Expecting::Comparison ||
         (expecting == Expecting::Condition && llvm::is_contained(costNames(), name));
}

NodeId Analyzer::figure(const ast::Expr &expr) {
  return operands({NodeOp::Figure, expr.span, result.code.addText(expr.text)}, expr);
}

} // namespace sluice
