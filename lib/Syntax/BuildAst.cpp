#include "Syntax/AstBuilder.h"

#include "llvm/ADT/StringRef.h"

namespace sluice {

Span spanOf(const antlr4::Token *token, Span text) {
  // The end of the file has no character of its own.
  auto begin = text.begin + static_cast<uint32_t>(token->getStartIndex());
  if (token->getType() == antlr4::Token::EOF)
    return {text.end, text.end};
  return {begin, text.begin + static_cast<uint32_t>(token->getStopIndex()) + 1};
}

std::string AstBuilder::stringOf(antlr4::tree::TerminalNode *token) {
  // From the source, which still has its characters beyond ASCII.
  llvm::StringRef quoted = sources.text(spanOf(token->getSymbol(), text));
  std::string result;
  for (size_t i = 1; i + 1 < quoted.size(); ++i) {
    if (quoted[i] == '\\')
      ++i;
    result += quoted[i];
  }
  return result;
}

std::string AstBuilder::documentation(antlr4::ParserRuleContext &tree) {
  std::string result;
  for (antlr4::Token *token : tokens.getHiddenTokensToLeft(tree.getStart()->getTokenIndex())) {
    if (token->getType() != grammar::SluiceLexer::DOCUMENTATION)
      continue;
    llvm::StringRef line = sources.text(spanOf(token, text)).drop_front(3);
    line.consume_front(" ");
    if (!result.empty())
      result += '\n';
    result += line.rtrim();
  }
  return result;
}

std::vector<ast::Identifier> AstBuilder::identifiers(P::ParametersContext *tree) {
  std::vector<ast::Identifier> result;
  if (tree)
    for (P::NameContext *name : tree->name())
      result.push_back(identifier(*name));
  return result;
}

ast::Let AstBuilder::let(P::LetContext &tree) { return {identifier(*tree.name()), expr(*tree.expr())}; }

ast::Function AstBuilder::function(P::FunctionContext &tree) {
  return {identifier(*tree.name()), identifiers(tree.parameters()), expr(*tree.expr()), documentation(tree)};
}

ast::Require AstBuilder::requirement(P::RequirementContext &tree) {
  return {expr(*tree.expr()), tree.STRING() ? stringOf(tree.STRING()) : "", span(tree)};
}

ast::Allow AstBuilder::allowance(P::AllowanceContext &tree) {
  return {tree.ruleName()->getText(), stringOf(tree.STRING()), span(tree)};
}

ast::Expect AstBuilder::expectation(P::ExpectationContext &tree) {
  ast::Expect result{identifier(*tree.name()), {}};
  for (P::ExpectedContext *entry : tree.expected()) {
    ast::Expected expected;
    antlr4::Token *semicolon = entry->getStop();
    expected.span = span(entry->getStart(), tokens.get(semicolon->getTokenIndex() - 1));
    if (auto *free = dynamic_cast<P::DeadlockFreeContext *>(entry)) {
      for (P::ExprContext *model : free->expr())
        expected.under.push_back(expr(*model));
    } else {
      auto &comparison = dynamic_cast<P::ComparisonContext &>(*entry);
      size_t next = 0;
      expected.comparison = expr(*comparison.expr(next++));
      if (comparison.name()) {
        expected.variable = identifier(*comparison.name());
        expected.range = range(*comparison.range());
        if (comparison.BY())
          expected.step = expr(*comparison.expr(next++));
      }
      if (comparison.WHEN())
        expected.condition = expr(*comparison.expr(next));
    }
    result.items.push_back(std::move(expected));
  }
  return result;
}

ast::Item AstBuilder::item(P::ItemContext &tree) {
  using Kind = ast::Block::Kind;
  if (auto *param = tree.param())
    return ast::Param{identifier(*param->name()), expr(*param->expr()), optionalRange(param->range()),
                      documentation(*param)};
  if (tree.let())
    return let(*tree.let());
  if (tree.function())
    return function(*tree.function());
  if (tree.requirement())
    return requirement(*tree.requirement());
  if (auto *importing = tree.importing())
    return ast::Import{stringOf(importing->STRING()), span(*importing)};
  if (auto *model = tree.model())
    return block(Kind::Model, *model, model->name(), model->setting());
  if (auto *cluster = tree.cluster())
    return block(Kind::Cluster, *cluster, cluster->name(), cluster->setting());
  if (auto *training = tree.training())
    return block(Kind::Training, *training, nullptr, training->setting());
  if (auto *queue = tree.queue())
    return block(Kind::Queue, *queue, queue->name(), queue->setting());
  if (tree.schedule())
    return schedule(*tree.schedule());
  if (tree.expectation())
    return expectation(*tree.expectation());
  return allowance(*tree.allowance());
}

ast::File buildAst(grammar::SluiceParser::FileContext &tree, antlr4::CommonTokenStream &tokens,
                   const SourceManager &sources, Span text, Diagnostics &diagnostics) {
  AstBuilder builder(tokens, sources, text, diagnostics);
  ast::File file;
  for (grammar::SluiceParser::ItemContext *item : tree.item())
    file.items.push_back(builder.item(*item));
  return file;
}

} // namespace sluice
