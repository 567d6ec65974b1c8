#include "Syntax/AstBuilder.h"

#include "llvm/ADT/ScopeExit.h"

#include <fmt/format.h>

namespace sluice {

using ast::Statement;

ast::Schedule AstBuilder::schedule(P::ScheduleContext &tree) {
  ast::Schedule result;
  result.documentation = documentation(tree);
  if (auto *derived = dynamic_cast<P::DerivedScheduleContext *>(&tree)) {
    result.name = identifier(*derived->name());
    result.derived = expr(*derived->expr());
    return result;
  }
  auto &written = dynamic_cast<P::WrittenScheduleContext &>(tree);
  result.name = identifier(*written.name());
  if (written.scheduleParameters())
    for (P::ScheduleParameterContext *parameter : written.scheduleParameters()->scheduleParameter())
      result.parameters.push_back({identifier(*parameter->name()), optionalExpr(parameter->expr()),
                                   optionalRange(parameter->range())});
  for (P::ScheduleItemContext *entry : written.scheduleItem())
    result.items.push_back(scheduleItem(*entry));
  return result;
}

ast::ScheduleItem AstBuilder::scheduleItem(P::ScheduleItemContext &tree) {
  if (tree.let())
    return let(*tree.let());
  if (tree.function())
    return function(*tree.function());
  if (tree.requirement())
    return requirement(*tree.requirement());
  if (tree.allowance())
    return allowance(*tree.allowance());
  if (tree.place())
    return place(*tree.place());
  if (tree.device())
    return device(*tree.device());
  if (tree.timetable())
    return ast::Timetable{statements(*tree.timetable()->block()), spanOf(tree.getStart(), text)};
  if (tree.table())
    return table(*tree.table());
  return setting(*tree.setting());
}

ast::Place AstBuilder::place(P::PlaceContext &tree) {
  ast::Place result;
  result.span = span(tree);
  result.stage = identifier(*tree.name(0));
  // `in` belongs to the stage if it stands before `on`.
  size_t ranges = 0;
  if (tree.range().size() > (tree.name().size() > 1 ? 1u : 0u))
    result.stages = range(*tree.range(ranges++));
  result.device = expr(*tree.expr(0));
  if (tree.name().size() > 1) {
    result.microbatch = identifier(*tree.name(1));
    result.microbatches = range(*tree.range(ranges));
    result.step = optionalExpr(tree.expr(1));
  }
  return result;
}

ast::DeviceBlock AstBuilder::device(P::DeviceContext &tree) {
  ast::DeviceBlock result;
  auto *beforeBlock = tokens.get(static_cast<size_t>(tree.block()->getStart()->getTokenIndex()) - 1);
  while (beforeBlock->getChannel() != antlr4::Token::DEFAULT_CHANNEL)
    beforeBlock = tokens.get(beforeBlock->getTokenIndex() - 1);
  result.span = span(tree.getStart(), beforeBlock);
  if (tree.name()) {
    result.variable = identifier(*tree.name());
    result.range = optionalRange(tree.range());
  } else if (tree.expr()) {
    result.device = expr(*tree.expr());
  } else {
    result.device = std::make_unique<ast::Expr>();
    result.device->kind = ast::ExprKind::Number;
    result.device->text = tree.NUMBER()->getText();
    result.device->span = spanOf(tree.NUMBER()->getSymbol(), text);
    int64_t number = 0;
    if (llvm::StringRef(result.device->text).getAsInteger(10, number))
      diagnostics.report(Rule::NotAnInteger, result.device->span,
                         {{"what", "the device"}, {"value", result.device->text}});
    result.device->quantity.value = Rational(number);
  }
  result.body = statements(*tree.block());
  return result;
}

ast::Table AstBuilder::table(P::TableContext &tree) {
  ast::Table result;
  if (tree.STRING()) {
    result.span = span(tree);
    result.path = stringOf(tree.STRING());
    return result;
  }
  Span whole = spanOf(tree.TABLE_BODY()->getSymbol(), text);
  llvm::StringRef content = sources.text(whole);
  // The opening brace may follow a comment; the token's shape leaves no other place for one.
  size_t open = content.find('{');
  for (size_t comment = content.find('/'); comment < open; comment = content.find('/', comment)) {
    bool line = content.substr(comment).starts_with("//");
    comment = line ? content.find('\n', comment) : content.find("*/", comment) + 2;
    open = content.find('{', comment);
  }
  result.span = {whole.begin, whole.begin + 5};
  result.body = {whole.begin + static_cast<uint32_t>(open) + 1, whole.end - 1};
  return result;
}

ast::Statements AstBuilder::statements(P::BlockContext &tree) {
  ast::Statements result;
  for (P::StatementContext *entry : tree.statement())
    result.push_back(statement(*entry));
  return result;
}

Statement AstBuilder::ifStatement(P::IfStatementContext &tree) {
  // `else if` chains are flat in the grammar, so that no chain is too long to parse; the tree nests them
  // from the last one inwards, and may not be too deep to walk.
  const std::vector<P::ExprContext *> conditions = tree.expr();
  const std::vector<P::BlockContext *> blocks = tree.block();
  branches += conditions.size();
  auto leave = llvm::make_scope_exit([&] { branches -= conditions.size(); });
  const bool tooMany = branches > maxBranches;
  if (tooMany && !std::exchange(hasTooManyBranches, true))
    diagnostics.report(Rule::SyntaxError, span(*conditions[0]),
                       {{"what", fmt::format("at most {} branches of `if` inside each other", maxBranches)},
                        {"token", "more"}});
  ast::Statements otherwise;
  if (blocks.size() > conditions.size() && !tooMany)
    otherwise = statements(*blocks.back());
  for (size_t i = tooMany ? 1 : conditions.size(); i-- > 0;) {
    Statement branch;
    branch.kind = Statement::Kind::If;
    branch.span = span(*conditions[i]);
    branch.value = expr(*conditions[i]);
    branch.body = statements(*blocks[i]);
    branch.otherwise = std::move(otherwise);
    if (i == 0)
      return branch;
    otherwise.clear();
    otherwise.push_back(std::move(branch));
  }
  return {};
}

Statement AstBuilder::statement(P::StatementContext &tree) {
  if (auto *conditional = dynamic_cast<P::IfStatementContext *>(&tree))
    return ifStatement(*conditional);
  Statement result;
  result.span = spanOf(tree.getStart(), text);
  if (auto *let = dynamic_cast<P::LetStatementContext *>(&tree)) {
    result.kind = Statement::Kind::Let;
    result.variable = identifier(*let->let()->name());
    result.value = expr(*let->let()->expr());
  } else if (auto *loop = dynamic_cast<P::ForStatementContext *>(&tree)) {
    result.kind = Statement::Kind::For;
    result.variable = identifier(*loop->name());
    result.range = range(*loop->domain()->range());
    result.reversed = loop->domain()->REVERSED() != nullptr;
    result.value = optionalExpr(loop->expr());
    result.span = span(loop->getStart(), loop->domain()->getStop());
    result.body = statements(*loop->block());
  } else if (auto *repeat = dynamic_cast<P::RepeatStatementContext *>(&tree)) {
    result.kind = Statement::Kind::Repeat;
    result.value = expr(*repeat->expr());
    result.body = statements(*repeat->block());
  } else if (auto *overlap = dynamic_cast<P::OverlapStatementContext *>(&tree)) {
    result.kind = Statement::Kind::Overlap;
    result.body = statements(*overlap->block());
  } else if (auto *group = dynamic_cast<P::GroupStatementContext *>(&tree)) {
    result.kind = Statement::Kind::Group;
    result.body = statements(*group->block());
  } else if (auto *at = dynamic_cast<P::AtStatementContext *>(&tree)) {
    result.kind = Statement::Kind::At;
    result.value = expr(*at->expr());
    result.bodyIsOverlap = at->block() != nullptr;
    if (result.bodyIsOverlap)
      result.body = statements(*at->block());
    else
      result.op = op(*at->op());
    result.span = span(*at);
  } else if (auto *fill = dynamic_cast<P::FillStatementContext *>(&tree)) {
    result.kind = Statement::Kind::Fill;
    result.op = op(*fill->op());
    result.span = result.op.span;
  } else {
    result.kind = Statement::Kind::Op;
    result.op = op(*dynamic_cast<P::OpStatementContext &>(tree).op());
    result.span = result.op.span;
  }
  return result;
}

ast::OpCall AstBuilder::op(P::OpContext &tree) {
  ast::OpCall result;
  result.prefix = tree.START()  ? ast::OpCall::Prefix::Start
                  : tree.WAIT() ? ast::OpCall::Prefix::Wait
                                : ast::OpCall::Prefix::None;
  result.name = identifier(*tree.name());
  // Without its semicolon: findings underline the op, not the punctuation.
  antlr4::Token *last = tree.name()->getStop();
  if (tree.arguments()) {
    result.hasArguments = true;
    last = tree.arguments()->getStop();
    for (P::ArgumentContext *argument : tree.arguments()->argument()) {
      if (argument->name())
        diagnostics
            .report(Rule::SyntaxError, span(*argument->name()),
                    {{"what", "an argument"}, {"token", "\"" + argument->name()->getText() + " =\""}})
            .fix.message = "ops take their stage and microbatch by position";
      result.arguments.push_back(expr(*argument->expr()));
    }
  }
  for (P::SuffixContext *entry : tree.suffix()) {
    result.suffixes.push_back(suffix(*entry));
    last = entry->getStop();
  }
  result.span = span(tree.getStart(), last);
  return result;
}

ast::Suffix AstBuilder::suffix(P::SuffixContext &tree) {
  ast::Suffix result;
  result.span = span(tree);
  bool secondWord = tree.USING() || tree.IF(); // `using version`, `if any`
  result.word = tree.children[secondWord ? 1 : 0]->getText();
  if (tree.name())
    result.name = tree.name()->getText();
  result.value = optionalExpr(tree.expr());
  return result;
}

} // namespace sluice
