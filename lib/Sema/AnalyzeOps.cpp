// The ops of programs and timetables: their words, arguments and suffixes.
#include "Sema/Analyzer.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

namespace {
struct OpInfo {
  llvm::StringRef name;
  OpKind kind;
};
constexpr OpInfo ops[] = {{"forward", OpKind::Forward},
                          {"backward", OpKind::Backward},
                          {"backward_input", OpKind::BackwardInput},
                          {"backward_weight", OpKind::BackwardWeight},
                          {"recompute", OpKind::Recompute},
                          {"drop", OpKind::Drop},
                          {"send_activation", OpKind::SendActivation},
                          {"recv_activation", OpKind::RecvActivation},
                          {"send_gradient", OpKind::SendGradient},
                          {"recv_gradient", OpKind::RecvGradient},
                          {"zero", OpKind::Zero},
                          {"reduce", OpKind::Reduce},
                          {"update", OpKind::Update},
                          {"unshard", OpKind::Unshard},
                          {"reshard", OpKind::Reshard}};
constexpr llvm::StringRef laterOps[] = {"offload", "reload", "scale", "reduce_tied", "norm"};
} // namespace

bool Analyzer::op(const ast::OpCall &call, CheckedOp &op) {
  op.span = call.span;
  op.text = sources.text(call.span).str();
  const auto *info = llvm::find_if(ops, [&](const OpInfo &known) { return known.name == call.name.text; });
  bool isLater = llvm::is_contained(laterOps, llvm::StringRef(call.name.text));
  if (isLater || (info != std::end(ops) && call.prefix != ast::OpCall::Prefix::None)) {
    notYet(call.span, fmt::format("`{}{}`",
                                  call.prefix == ast::OpCall::Prefix::None    ? ""
                                  : call.prefix == ast::OpCall::Prefix::Start ? "start "
                                                                              : "wait ",
                                  call.name.text));
    return false;
  }
  if (info == std::end(ops)) {
    std::vector<llvm::StringRef> names(std::begin(laterOps), std::end(laterOps));
    for (const OpInfo &known : ops)
      names.push_back(known.name);
    llvm::StringRef near = nearest(call.name.text, names);
    diagnostics.report(Rule::UnknownName, call.name.span, {{"name", "op " + call.name.text}}).fix.message =
        near.empty() ? "forward, backward, reduce, update and so on" : near.str() + "?";
    return false;
  }
  op.kind = info->kind;
  bool hasMicrobatch = Op{op.kind}.hasMicrobatch();
  size_t count = call.arguments.size();
  if (count > (hasMicrobatch ? 2u : 1u) || (hasMicrobatch && count == 0)) {
    diagnostics.report(
        Rule::WrongArguments, call.span,
        {{"what",
          fmt::format("{} takes {}, found {}", call.name.text,
                      hasMicrobatch ? "(stage, microbatch) or (microbatch)" : "a stage or nothing", count)}});
    return false;
  }
  if (!hasMicrobatch) {
    op.form = MicrobatchForm::None;
    if (count == 1)
      op.stage = expr(*call.arguments[0]);
  } else {
    if (count == 2)
      op.stage = expr(*call.arguments[0]);
    microbatch(*call.arguments.back(), op);
  }
  bool good = true;
  for (const ast::Suffix &entry : call.suffixes)
    good &= suffix(entry, op);
  if (op.ifAny && (op.form == MicrobatchForm::Number || op.form == MicrobatchForm::None)) {
    diagnostics.report(
        Rule::WrongArguments, call.span,
        {{"what", fmt::format("`if any` takes `next`, `oldest` or `newest`, found {} microbatch",
                              hasMicrobatch ? "a numbered" : "no")}});
    good = false;
  }
  if ((inOverlap && !Op{op.kind}.touchesActivation()) || (inGroup && !Op{op.kind}.isCommunication())) {
    diagnostics.report(Rule::WrongArguments, call.span,
                       {{"what", fmt::format("{}, found {}",
                                             inOverlap ? "an overlap takes ops that compute"
                                                       : "a group takes sends and receives",
                                             call.name.text)}});
    good = false;
  }
  if (Op{op.kind}.isCommunication() && !current->isExplicit && !current->firstCommunication.isValid())
    current->firstCommunication = call.span;
  op.site = site(call.span);
  return good;
}

void Analyzer::microbatch(const ast::Expr &expr, CheckedOp &op) {
  static constexpr std::pair<llvm::StringRef, MicrobatchForm> forms[] = {{"next", MicrobatchForm::Next},
                                                                         {"oldest", MicrobatchForm::Oldest},
                                                                         {"newest", MicrobatchForm::Newest},
                                                                         {"all", MicrobatchForm::All}};
  if (expr.kind == ast::ExprKind::Name && !lookUp(expr.text))
    for (const auto &[word, form] : forms) {
      if (expr.text != word)
        continue;
      bool pending = form != MicrobatchForm::Next;
      if (pending && op.kind != OpKind::BackwardWeight) {
        diagnostics.report(Rule::WrongArguments, expr.span,
                           {{"what", fmt::format("only backward_weight takes `{}`", word.str())}});
        return;
      }
      op.form = form;
      (pending ? current->usesPending : current->usesNext) = true;
      return;
    }
  op.microbatch = this->expr(expr);
}

bool Analyzer::suffix(const ast::Suffix &suffix, CheckedOp &op) {
  auto refuse = [&](const std::string &what) {
    diagnostics.report(Rule::WrongArguments, suffix.span, {{"what", what}});
    return false;
  };
  if (suffix.word == "any") {
    op.ifAny = true;
    return true;
  }
  if (suffix.word == "keep") {
    bool known = suffix.name == "input" || (suffix.name == "nothing" && op.kind == OpKind::Forward);
    if ((op.kind != OpKind::Forward && op.kind != OpKind::Drop) || !known)
      return refuse(fmt::format("{} takes no `keep {}`", sluice::name(op.kind).str(), suffix.name));
    if (op.flags & (KeepInput | KeepNothing))
      return refuse("an op takes one `keep`");
    op.flags |= suffix.name == "input" ? KeepInput : KeepNothing;
    return true;
  }
  if (suffix.word == "replay") {
    if (op.kind != OpKind::Recompute)
      return refuse("only recompute takes `replay`");
    op.flags |= Replay;
    return true;
  }
  if (suffix.word == "version") {
    if (op.kind != OpKind::Forward)
      return refuse("only forward takes `using version`: its backward follows `versions`");
    if (op.version != noNode)
      return refuse("an op names one version");
    op.version = expr(*suffix.value);
    return true;
  }
  notYet(suffix.span, fmt::format("`{}` after an op", suffix.word));
  return false;
}

} // namespace sluice
