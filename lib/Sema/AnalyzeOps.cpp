// The ops of programs and timetables: their words, arguments and suffixes.
#include "Sema/Analyzer.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

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
                          {"reshard", OpKind::Reshard},
                          {"offload", OpKind::Offload},
                          {"reload", OpKind::Reload},
                          {"scale", OpKind::Scale},
                          {"reduce_tied", OpKind::ReduceTied},
                          {"norm", OpKind::Norm}};
} // namespace

/// How many arguments an op takes, and in which words.
struct Signature {
  size_t least, most;
  const char *words;
};
static Signature signatureOf(OpKind kind) {
  if (Op{kind}.hasMicrobatch())
    return {1, 2, "(stage, microbatch) or (microbatch)"};
  switch (kind) {
  case OpKind::Scale:
    return {1, 2, "(stage, factor) or (factor)"};
  case OpKind::ReduceTied:
    return {1, 1, "the name of a tied weight"};
  case OpKind::Norm:
    return {0, 0, "nothing"};
  default:
    return {0, 1, "a stage or nothing"};
  }
}

/// `reduce_tied(NAME)`: a weight of the model.
bool Analyzer::tiedWeight(const ast::Expr &named, CheckedOp &op) {
  std::vector<llvm::StringRef> names;
  if (result.model)
    for (const CheckedTied &tied : result.model->tied)
      names.push_back(tied.name);
  const auto found = llvm::find(names, llvm::StringRef(named.text));
  if (named.kind == ast::ExprKind::Name && found != names.end()) {
    op.tied = static_cast<uint32_t>(found - names.begin());
    return true;
  }
  const bool isName = named.kind == ast::ExprKind::Name;
  llvm::StringRef near = isName ? nearest(named.text, names) : "";
  diagnostics
      .report(Rule::UnknownName, named.span,
              {{"name", fmt::format("tied weight {}", sources.text(named.span).str())}})
      .fix.message = !near.empty()   ? near.str() + "?"
                     : names.empty() ? "tied NAME on s, t; in the model"
                                     : fmt::format("one of {}", llvm::join(names, ", "));
  return false;
}

bool Analyzer::op(const ast::OpCall &call, CheckedOp &op) {
  op.span = call.span;
  op.text = sources.text(call.span).str();
  const auto *info = llvm::find_if(ops, [&](const OpInfo &known) { return known.name == call.name.text; });
  if (info == std::end(ops)) {
    std::vector<llvm::StringRef> names;
    for (const OpInfo &known : ops)
      names.push_back(known.name);
    llvm::StringRef near = nearest(call.name.text, names);
    diagnostics.report(Rule::UnknownName, call.name.span, {{"name", "op " + call.name.text}}).fix.message =
        near.empty() ? "forward, backward, reduce, update and so on" : near.str() + "?";
    return false;
  }
  op.kind = info->kind;
  const bool hasMicrobatch = Op{op.kind}.hasMicrobatch();
  const size_t count = call.arguments.size();
  const Signature signature = signatureOf(op.kind);
  if (count < signature.least || count > signature.most) {
    diagnostics.report(
        Rule::WrongArguments, call.span,
        {{"what", fmt::format("{} takes {}, found {}", call.name.text, signature.words, count)}});
    return false;
  }
  if (!prefix(call, op))
    return false;
  if (!hasMicrobatch) {
    op.form = MicrobatchForm::None;
    if (op.kind == OpKind::ReduceTied) {
      if (!tiedWeight(*call.arguments[0], op))
        return false;
    } else if (op.kind == OpKind::Scale) {
      op.factor = expr(*call.arguments.back());
      if (count == 2)
        op.stage = expr(*call.arguments[0]);
    } else if (count == 1) {
      op.stage = expr(*call.arguments[0]);
    }
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
  const bool isForOverlap = Op{op.kind}.isCompute() || op.kind == OpKind::Drop;
  if ((inOverlap && !isForOverlap) || (inGroup && !Op{op.kind}.isCommunication())) {
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

/// `start` and `wait`.
bool Analyzer::prefix(const ast::OpCall &call, CheckedOp &op) {
  using Prefix = ast::OpCall::Prefix;
  if (call.prefix == Prefix::None)
    return true;
  const char *word = call.prefix == Prefix::Start ? "start" : "wait";
  auto refuse = [&](const std::string &what, const char *fix) {
    diagnostics.report(Rule::WrongArguments, call.span, {{"what", what}}).fix.message = fix;
    return false;
  };
  if (!Op{op.kind}.mayStart())
    return refuse(fmt::format("{} takes no `{}`: it occupies its device to its end", call.name.text, word),
                  "start stands before sends, receives, reductions, unshard, offload and reload");
  if (inGroup)
    return refuse(
        fmt::format("`{} {}` stands in a group, whose members are posted together", word, call.name.text),
        "put it before or behind the group");
  op.flags |= call.prefix == Prefix::Start ? Started : Waits;
  return true;
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
  if (suffix.word == "scale") {
    if (op.kind < OpKind::Backward || op.kind > OpKind::BackwardWeight)
      return refuse(
          fmt::format("{} takes no `scale`: backward and its halves do", sluice::name(op.kind).str()));
    if (op.flags & Scaled)
      return refuse("an op takes one `scale`");
    op.flags |= Scaled;
    op.factor = expr(*suffix.value);
    return true;
  }
  if (suffix.word == "overwrite") {
    if (!Op{op.kind}.contributes())
      return refuse("only backward and backward_weight take `overwrite`");
    op.flags |= Overwrite;
    return true;
  }
  if (suffix.word == "local") {
    if (op.kind != OpKind::Norm)
      return refuse("only norm takes `local`");
    op.flags |= Local;
    return true;
  }
  const bool isSend = Op{op.kind}.isSend();
  if (!Op{op.kind}.isCommunication() || (suffix.word == "to") != isSend)
    return refuse(fmt::format("{} takes no `{}`{}", sluice::name(op.kind).str(), suffix.word,
                              Op{op.kind}.isCommunication()
                                  ? isSend ? ": a send goes `to` a stage" : ": a receive comes `from` a stage"
                                  : ""));
  if (op.peer != noNode)
    return refuse("a message has one other end");
  op.flags |= NamesPeer;
  op.peer = expr(*suffix.value);
  return true;
}

} // namespace sluice
