// The walk from parse tree to syntax tree, shared by the files that each build some constructs; private
// to lib/Syntax.
#pragma once

#include "Syntax/BuildAst.h"

namespace sluice {

class AstBuilder {
public:
  using P = grammar::SluiceParser;

  AstBuilder(antlr4::CommonTokenStream &tokens, const SourceManager &sources, Span text,
             Diagnostics &diagnostics)
      : tokens(tokens), sources(sources), text(text), diagnostics(diagnostics) {}

  // BuildAst.cpp: declarations.
  ast::Item item(P::ItemContext &tree);
  // BuildSettings.cpp: model, cluster, training, queue and the settings in them.
  ast::Block block(ast::Block::Kind kind, antlr4::ParserRuleContext &tree, P::NameContext *name,
                   const std::vector<P::SettingContext *> &settings);
  ast::Setting setting(P::SettingContext &tree);
  // BuildSchedule.cpp: schedules and the statements of their programs.
  ast::Schedule schedule(P::ScheduleContext &tree);
  ast::Statements statements(P::BlockContext &tree);
  // BuildExpr.cpp.
  ast::ExprPtr expr(P::ExprContext &tree);
  ast::ExprPtr optionalExpr(P::ExprContext *tree) { return tree ? expr(*tree) : nullptr; }
  ast::Range range(P::RangeContext &tree) { return {expr(*tree.expr(0)), expr(*tree.expr(1))}; }
  std::optional<ast::Range> optionalRange(P::RangeContext *tree) {
    return tree ? std::optional(range(*tree)) : std::nullopt;
  }

  ast::Identifier identifier(P::NameContext &tree) { return {tree.getText(), span(tree)}; }
  std::vector<ast::Identifier> identifiers(P::ParametersContext *tree);
  /// The text of a STRING token without its quotes.
  std::string stringOf(antlr4::tree::TerminalNode *token);
  /// The `///` lines right before `tree`.
  std::string documentation(antlr4::ParserRuleContext &tree);
  Span span(antlr4::ParserRuleContext &tree) {
    return join(spanOf(tree.getStart(), text), spanOf(tree.getStop(), text));
  }
  Span span(antlr4::Token *first, antlr4::Token *last) {
    return join(spanOf(first, text), spanOf(last, text));
  }

  ast::Let let(P::LetContext &tree);
  ast::Function function(P::FunctionContext &tree);
  ast::Require requirement(P::RequirementContext &tree);
  ast::Allow allowance(P::AllowanceContext &tree);

private:
  ast::ExprPtr number(P::NumberPrimaryContext &tree);
  ast::ExprPtr primary(P::PrimaryContext &tree);
  ast::ExprPtr call(P::CallPrimaryContext &tree);
  ast::ExprPtr node(ast::ExprKind kind, antlr4::ParserRuleContext &tree, std::string word = {});
  ast::Expect expectation(P::ExpectationContext &tree);
  ast::ScheduleItem scheduleItem(P::ScheduleItemContext &tree);
  ast::Place place(P::PlaceContext &tree);
  ast::DeviceBlock device(P::DeviceContext &tree);
  ast::Table table(P::TableContext &tree);
  ast::Statement statement(P::StatementContext &tree);
  ast::Statement ifStatement(P::IfStatementContext &tree);
  ast::OpCall op(P::OpContext &tree);
  ast::Suffix suffix(P::SuffixContext &tree);

  antlr4::CommonTokenStream &tokens;
  const SourceManager &sources;
  Span text;
  Diagnostics &diagnostics;
  static constexpr size_t maxBranches = 1024;
  size_t branches = 0; ///< Of the `if`s around the statement at hand, an `else if` inside those before it.
  bool hasTooManyBranches = false;
};

} // namespace sluice
