#include "Syntax/AstBuilder.h"

namespace sluice {

using ast::Setting;

ast::Block AstBuilder::block(ast::Block::Kind kind, antlr4::ParserRuleContext &tree, P::NameContext *name,
                             const std::vector<P::SettingContext *> &settings) {
  ast::Block result;
  result.kind = kind;
  result.span = span(tree.getStart(), name ? name->getStop() : tree.getStart());
  result.documentation = documentation(tree);
  if (name)
    result.name = identifier(*name);
  for (P::SettingContext *entry : settings)
    result.settings.push_back(setting(*entry));
  return result;
}

static void fillValue(AstBuilder &builder, AstBuilder::P::SettingValueContext &tree, Setting &result) {
  using P = AstBuilder::P;
  if (auto *range = dynamic_cast<P::RangeValueContext *>(&tree)) {
    result.form = Setting::Form::Range;
    result.range = builder.range(*range->range());
  } else if (auto *over = dynamic_cast<P::OverValueContext *>(&tree)) {
    result.form = Setting::Form::Words;
    result.words = {over->name(0)->getText(), "over", over->name(1)->getText()};
  } else if (auto *words = dynamic_cast<P::WordsValueContext *>(&tree)) {
    result.form = Setting::Form::Words;
    result.words = {words->name(0)->getText(), words->name(1)->getText()};
  } else {
    result.form = Setting::Form::Value;
    result.value = builder.expr(*dynamic_cast<P::ExprValueContext &>(tree).expr());
  }
}

Setting AstBuilder::setting(P::SettingContext &tree) {
  Setting result;
  result.span = span(tree);
  auto settingsOf = [&](const std::vector<P::SettingContext *> &inner) {
    for (P::SettingContext *entry : inner)
      result.settings.push_back(setting(*entry));
  };
  auto operandsOf = [&](const std::vector<P::ExprContext *> &operands) {
    for (P::ExprContext *operand : operands)
      result.operands.push_back(expr(*operand));
  };
  if (auto *value = dynamic_cast<P::ValueSettingContext *>(&tree)) {
    result.name = identifier(*value->name());
    result.parameters = identifiers(value->parameters());
    fillValue(*this, *value->settingValue(), result);
  } else if (auto *block = dynamic_cast<P::BlockSettingContext *>(&tree)) {
    result.form = Setting::Form::Block;
    result.name = identifier(*block->name(0));
    if (block->name().size() > 1)
      result.label = identifier(*block->name(1));
    result.parameters = identifiers(block->parameters());
    result.condition = optionalExpr(block->expr());
    result.span = result.name.span;
    settingsOf(block->setting());
  } else if (auto *from = dynamic_cast<P::FromSettingContext *>(&tree)) {
    result.form = Setting::Form::From;
    result.name = identifier(*from->name());
    result.words = {stringOf(from->STRING())};
  } else if (auto *edge = dynamic_cast<P::EdgeSettingContext *>(&tree)) {
    result.form = Setting::Form::Edge;
    result.name = {"edge", spanOf(edge->getStart(), text)};
    operandsOf(edge->expr());
    settingsOf(edge->setting());
  } else if (auto *tied = dynamic_cast<P::TiedSettingContext *>(&tree)) {
    result.form = Setting::Form::Tied;
    result.name = {"tied", spanOf(tied->getStart(), text)};
    result.words = {tied->name()->getText()};
    operandsOf(tied->expr());
  } else if (auto *on = dynamic_cast<P::OnSettingContext *>(&tree)) {
    result.form = Setting::Form::On;
    result.name = identifier(*on->name());
    operandsOf(on->expr());
  } else {
    result.form = Setting::Form::Flag;
    result.name = identifier(*dynamic_cast<P::FlagSettingContext &>(tree).name());
  }
  return result;
}

} // namespace sluice
