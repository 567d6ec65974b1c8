#include "Syntax/AstBuilder.h"

#include "Support/Decimal.h"

#include <fmt/format.h>

namespace sluice {

using ast::ExprKind;
using ast::ExprPtr;

ExprPtr AstBuilder::node(ExprKind kind, antlr4::ParserRuleContext &tree, std::string word) {
  auto result = std::make_unique<ast::Expr>();
  result->kind = kind;
  result->span = span(tree);
  result->text = std::move(word);
  return result;
}

ExprPtr AstBuilder::number(P::NumberPrimaryContext &tree) {
  std::string digits = tree.NUMBER()->getText();
  ExprPtr result = node(ExprKind::Number, tree, digits);
  std::optional<Rational> value = parseDecimal(digits);
  std::string unit;
  if (auto *token = tree.UNIT() ? tree.UNIT() : tree.BANDWIDTH())
    unit = token->getText();
  if (!unit.empty()) {
    Quantity one = *unitNamed(unit);
    result->quantity.dimension = one.dimension;
    if (value)
      value = multiply(*value, one.value);
    result->text += " " + unit;
  } else if (tree.PERCENT()) {
    if (value)
      value = divide(*value, Rational(100));
    result->text += "%";
  }
  if (value)
    result->quantity.value = *value;
  else
    diagnostics
        .report(Rule::ValueOutOfRange, result->span,
                {{"what", fmt::format("{} does not fit an exact 64-bit fraction", digits)}})
        .fix.message = unit.empty() ? "a number of at most 18 digits" : "a smaller number, or a larger unit";
  return result;
}

ExprPtr AstBuilder::call(P::CallPrimaryContext &tree) {
  ExprPtr result = node(ExprKind::Call, tree, tree.name()->getText());
  for (P::ArgumentContext *argument : tree.arguments()->argument()) {
    result->children.push_back(expr(*argument->expr()));
    result->argumentNames.push_back(argument->name() ? argument->name()->getText() : "");
  }
  return result;
}

ExprPtr AstBuilder::primary(P::PrimaryContext &tree) {
  if (auto *number = dynamic_cast<P::NumberPrimaryContext *>(&tree))
    return this->number(*number);
  if (auto *string = dynamic_cast<P::StringPrimaryContext *>(&tree))
    return node(ExprKind::String, tree, stringOf(string->STRING()));
  if (auto *parenthesis = dynamic_cast<P::ParenthesisPrimaryContext *>(&tree)) {
    ExprPtr inner = expr(*parenthesis->expr());
    inner->span = span(tree);
    return inner;
  }
  if (auto *list = dynamic_cast<P::ListPrimaryContext *>(&tree)) {
    ExprPtr result = node(ExprKind::List, tree);
    for (P::ExprContext *element : list->expr())
      result->children.push_back(expr(*element));
    return result;
  }
  if (auto *comprehension = dynamic_cast<P::ComprehensionPrimaryContext *>(&tree)) {
    ExprPtr result = node(ExprKind::Comprehension, tree, comprehension->name(0)->getText());
    result->variable = comprehension->name(1)->getText();
    result->children.push_back(expr(*comprehension->expr(0)));
    result->children.push_back(expr(*comprehension->range()->expr(0)));
    result->children.push_back(expr(*comprehension->range()->expr(1)));
    result->children.push_back(optionalExpr(comprehension->expr(1)));
    return result;
  }
  if (auto *call = dynamic_cast<P::CallPrimaryContext *>(&tree))
    return this->call(*call);
  return node(ExprKind::Name, tree, tree.getText());
}

ExprPtr AstBuilder::expr(P::ExprContext &tree) {
  if (auto *primary = dynamic_cast<P::PrimaryExprContext *>(&tree))
    return this->primary(*primary->primary());
  auto operation = [&](ExprKind kind, std::string word, const std::vector<P::ExprContext *> &operands) {
    ExprPtr result = node(kind, tree, std::move(word));
    for (P::ExprContext *operand : operands)
      result->children.push_back(expr(*operand));
    return result;
  };
  if (auto *binary = dynamic_cast<P::BinaryExprContext *>(&tree))
    return operation(ExprKind::Binary, binary->children[1]->getText(), binary->expr());
  if (auto *unary = dynamic_cast<P::UnaryExprContext *>(&tree))
    return operation(ExprKind::Unary, unary->children[0]->getText(), {unary->expr()});
  if (auto *index = dynamic_cast<P::IndexExprContext *>(&tree))
    return operation(ExprKind::Index, "", index->expr());
  auto &conditional = dynamic_cast<P::ConditionalExprContext &>(tree);
  return operation(ExprKind::Conditional, "", conditional.expr());
}

} // namespace sluice
