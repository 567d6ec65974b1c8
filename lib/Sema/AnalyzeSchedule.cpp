#include "Sema/Analyzer.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice {

using ast::Statement;

void Analyzer::schedule(const ast::Schedule &schedule, bool isImported) {
  CheckedSchedule checked;
  checked.name = schedule.name.text;
  checked.span = schedule.name.span;
  checked.documentation = schedule.documentation;
  checked.isImported = isImported;
  current = &checked;
  inScope([&] {
    for (const ast::ScheduleParameter &parameter : schedule.parameters) {
      // A default may use earlier parameters.
      CheckedParam param;
      param.name = parameter.name.text;
      param.span = parameter.name.span;
      param.value = optional(parameter.value);
      param.range = range(parameter.range);
      param.slot = declareSlot(parameter.name, Hiding::Allowed);
      checked.parameters.push_back(std::move(param));
    }
    if (schedule.derived)
      checked.derived = use(*schedule.derived);
    for (const ast::ScheduleItem &item : schedule.items)
      scheduleItem(item, fileName);
  });
  current = nullptr;
  declare(checked.name,
          {Entry::Kind::Schedule, static_cast<uint32_t>(result.schedules.size()), checked.span});
  result.schedules.push_back(std::move(checked));
}

CheckedSchedule::Use Analyzer::use(const ast::Expr &expr) {
  CheckedSchedule::Use use;
  use.span = expr.span;
  if (expr.kind == ast::ExprKind::Conditional) {
    use.condition = this->expr(*expr.children[0]);
    use.branches.push_back(this->use(*expr.children[1]));
    use.branches.push_back(this->use(*expr.children[2]));
    return use;
  }
  if (expr.kind != ast::ExprKind::Call && expr.kind != ast::ExprKind::Name) {
    diagnostics.report(Rule::SyntaxError, expr.span, {{"what", "a schedule"}, {"token", "another value"}});
    return use;
  }
  Entry *entry = lookUp(expr.text);
  if (!entry && expr.text == "tighten") {
    notYet(expr.span, "the pass `tighten`");
    return use;
  }
  if (!entry || entry->kind != Entry::Kind::Schedule) {
    std::vector<llvm::StringRef> names;
    for (const CheckedSchedule &schedule : result.schedules)
      names.push_back(schedule.name);
    llvm::StringRef near = nearest(expr.text, names);
    diagnostics.report(Rule::UnknownName, expr.span, {{"name", "schedule " + expr.text}}).fix.message =
        near.empty() ? "declare or import it before its use" : near.str() + "?";
    return use;
  }
  use.schedule = entry->index;
  CheckedSchedule &used = result.schedules[entry->index];
  used.isUsed = true;
  for (size_t i = 0; i < expr.children.size(); ++i) {
    const std::string &name = i < expr.argumentNames.size() ? expr.argumentNames[i] : "";
    size_t position = i;
    if (!name.empty())
      position = static_cast<size_t>(llvm::find_if(used.parameters,
                                                   [&](const CheckedParam &p) { return p.name == name; }) -
                                     used.parameters.begin());
    if (position >= used.parameters.size()) {
      std::vector<std::string> names;
      for (const CheckedParam &param : used.parameters)
        names.push_back(param.name);
      diagnostics.report(Rule::WrongArguments, expr.children[i]->span,
                         {{"what", fmt::format("{} takes {}, found {}", used.name,
                                               names.empty() ? "no parameters" : llvm::join(names, ", "),
                                               name.empty() ? fmt::format("{} values", expr.children.size())
                                                            : name)}});
      break;
    }
    if (llvm::any_of(use.arguments, [&](const auto &given) { return given.first == position; })) {
      diagnostics.report(Rule::WrongArguments, expr.children[i]->span,
                         {{"what", fmt::format("{} is given twice", used.parameters[position].name)}});
      break;
    }
    NodeId value = this->expr(*expr.children[i]);
    use.arguments.emplace_back(static_cast<uint32_t>(position), value);
  }
  return use;
}

void Analyzer::scheduleItem(const ast::ScheduleItem &item, const std::string &from) {
  if (auto *let = std::get_if<ast::Let>(&item)) {
    current->steps.push_back(this->let(let->name, *let->value));
  } else if (auto *function = std::get_if<ast::Function>(&item)) {
    this->function(*function);
  } else if (auto *require = std::get_if<ast::Require>(&item)) {
    current->steps.push_back(requirement(*require));
  } else if (auto *allow = std::get_if<ast::Allow>(&item)) {
    allowance(*allow, current->name);
  } else if (auto *place = std::get_if<ast::Place>(&item)) {
    current->places.push_back(this->place(*place));
  } else if (auto *device = std::get_if<ast::DeviceBlock>(&item)) {
    this->device(*device);
  } else if (auto *timetable = std::get_if<ast::Timetable>(&item)) {
    if (current->timetable)
      diagnostics.report(Rule::DuplicateName, timetable->span,
                         {{"name", "timetable"},
                          {"line", std::to_string(sources.locate(current->timetable->span.begin).line)}});
    inTimetable = true;
    current->timetable = CheckedTimetable{statements(timetable->body), timetable->span};
    inTimetable = false;
  } else if (auto *table = std::get_if<ast::Table>(&item)) {
    CheckedTable checked{table->body, !table->path.empty(), table->span};
    if (checked.isCsv) {
      FileReader::Result read = reader.read(table->path, from);
      if (!read.error.empty())
        diagnostics.report(Rule::ImportFailed, table->span,
                           {{"path", fmt::format("\"{}\"", table->path)}, {"reason", read.error}});
      checked.text = read.text;
    }
    if (current->table)
      diagnostics.report(Rule::DuplicateName, table->span,
                         {{"name", "table"},
                          {"line", std::to_string(sources.locate(current->table->span.begin).line)}});
    current->table = checked;
  } else {
    scheduleSetting(std::get<ast::Setting>(item));
  }
}

void Analyzer::scheduleSetting(const ast::Setting &setting) {
  const SettingInfo *info = findSetting("schedule", setting.name.text);
  if (!info) {
    std::vector<llvm::StringRef> names = settingNames("schedule");
    names.insert(names.end(), {"place", "device", "timetable", "table"});
    return unknown(setting.name.span, setting.name.text, names);
  }
  if (!info->isSupported)
    return notYet(setting.span, fmt::format("`{}`", setting.name.text));
  CheckedSetting checked;
  word(checked, *info, setting);
  if (setting.name.text != "communication" || checked.words.empty())
    return;
  if (checked.words.size() == 2 && (checked.words[1] == "early" || checked.words[1] == "just_in_time"))
    current->communication = checked.words[1];
  else
    diagnostics.report(Rule::UnknownName, setting.span, {{"name", "this placement"}}).fix.message =
        "inferred(early) or inferred(just_in_time)";
}

CheckedPlace Analyzer::place(const ast::Place &place) {
  CheckedPlace checked;
  checked.span = place.span;
  inScope([&] {
    checked.stages = range(place.stages);
    if (place.microbatches)
      checked.microbatches = range(*place.microbatches, place.step);
    checked.stage = declareSlot(place.stage, Hiding::Allowed);
    if (place.microbatch)
      checked.microbatch = declareSlot(*place.microbatch, Hiding::Allowed);
    checked.device = expr(*place.device);
  });
  return checked;
}

void Analyzer::device(const ast::DeviceBlock &device) {
  CheckedDevice checked;
  checked.span = device.span;
  inScope([&] {
    checked.range = range(device.range);
    checked.device = optional(device.device);
    if (device.variable)
      checked.variable = declareSlot(*device.variable);
    checked.body = statements(device.body);
  });
  current->devices.push_back(std::move(checked));
}

uint32_t Analyzer::site(Span span) {
  auto nest = llvm::find(current->nests, loops);
  if (nest == current->nests.end())
    nest = current->nests.insert(current->nests.end(), loops);
  current->sites.push_back({span, static_cast<uint32_t>(nest - current->nests.begin())});
  return static_cast<uint32_t>(current->sites.size() - 1);
}

std::vector<CheckedStatement> Analyzer::statements(const ast::Statements &list) {
  std::vector<CheckedStatement> checked;
  inScope([&] {
    for (const Statement &entry : list)
      if (auto statement = this->statement(entry))
        checked.push_back(std::move(*statement));
  });
  return checked;
}

std::optional<CheckedStatement> Analyzer::statement(const Statement &statement) {
  using Kind = CheckedStatement::Kind;
  CheckedStatement checked;
  checked.span = statement.span;
  switch (statement.kind) {
  case Statement::Kind::Op:
    if (inTimetable) {
      diagnostics.report(Rule::SyntaxError, statement.span,
                         {{"what", "\"at\" and a slot"}, {"token", "an op without one"}});
      return std::nullopt;
    }
    checked.kind = Kind::Op;
    if (!op(statement.op, checked.op))
      return std::nullopt;
    return checked;
  case Statement::Kind::Let:
    checked.kind = Kind::Let;
    checked.value = expr(*statement.value);
    checked.slot = declareSlot(statement.variable);
    return checked;
  case Statement::Kind::For:
    checked.kind = Kind::For;
    checked.range = range(*statement.range, statement.value);
    checked.reversed = statement.reversed;
    inScope([&] {
      checked.slot = declareSlot(statement.variable);
      loops.push_back(statement.variable.text);
      checked.body = statements(statement.body);
      loops.pop_back();
    });
    return checked;
  case Statement::Kind::If:
    checked.kind = Kind::If;
    checked.value = expr(*statement.value);
    checked.body = statements(statement.body);
    checked.otherwise = statements(statement.otherwise);
    return checked;
  case Statement::Kind::Repeat:
    checked.kind = Kind::Repeat;
    checked.value = expr(*statement.value);
    checked.body = statements(statement.body);
    return checked;
  case Statement::Kind::Group:
    notYet(statement.span, "`group`");
    return std::nullopt;
  case Statement::Kind::Overlap:
    checked.kind = Kind::Overlap;
    if (inOverlap) {
      diagnostics.report(Rule::SyntaxError, statement.span,
                         {{"what", "an op"}, {"token", "an overlap inside an overlap"}});
      return std::nullopt;
    }
    inOverlap = true;
    checked.body = statements(statement.body);
    inOverlap = false;
    if (statement.body.empty())
      diagnostics.report(Rule::SyntaxError, statement.span,
                         {{"what", "the ops of the overlap"}, {"token", "none"}});
    return checked;
  case Statement::Kind::At: {
    if (!inTimetable) {
      diagnostics.report(Rule::SyntaxError, statement.span,
                         {{"what", "an op"}, {"token", "\"at\" outside a timetable"}});
      return std::nullopt;
    }
    checked.kind = Kind::At;
    checked.value = expr(*statement.value);
    inTimetable = false;
    inOverlap = statement.bodyIsOverlap;
    if (statement.bodyIsOverlap) {
      checked.body = statements(statement.body);
    } else {
      CheckedStatement only;
      only.kind = Kind::Op;
      only.span = statement.op.span;
      if (op(statement.op, only.op))
        checked.body.push_back(std::move(only));
    }
    inTimetable = true;
    inOverlap = false;
    return checked;
  }
  case Statement::Kind::Fill:
    checked.kind = Kind::Fill;
    if (!op(statement.op, checked.op))
      return std::nullopt;
    if (!inTimetable || checked.op.kind != OpKind::BackwardWeight ||
        checked.op.form == MicrobatchForm::Number || checked.op.form == MicrobatchForm::Next) {
      diagnostics.report(Rule::SyntaxError, statement.span,
                         {{"what", inTimetable ? "fill backward_weight(oldest)" : "an op"},
                          {"token", inTimetable ? "\"fill " + checked.op.text + "\"" : "fill outside a timetable"}});
      return std::nullopt;
    }
    current->usesPending = true;
    return checked;
  }
  return std::nullopt;
}

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
                          {"zero", OpKind::Zero},
                          {"reduce", OpKind::Reduce},
                          {"update", OpKind::Update}};
constexpr llvm::StringRef laterOps[] = {"send_activation", "recv_activation", "send_gradient",
                                        "recv_gradient",   "offload",         "reload",
                                        "unshard",         "reshard",         "scale",
                                        "reduce_tied",     "norm"};
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
    diagnostics.report(Rule::WrongArguments, call.span,
                       {{"what", fmt::format("{} takes {}, found {}", call.name.text,
                                             hasMicrobatch ? "(stage, microbatch) or (microbatch)"
                                                           : "a stage or nothing",
                                             count)}});
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
  if (op.ifAny && op.form == MicrobatchForm::Number) {
    diagnostics.report(Rule::WrongArguments, call.span,
                       {{"what", "`if any` takes `next`, `oldest` or `newest`, found a numbered microbatch"}});
    good = false;
  }
  if (inOverlap && !Op{op.kind}.hasMicrobatch()) {
    diagnostics.report(Rule::WrongArguments, call.span,
                       {{"what", fmt::format("an overlap takes ops of a microbatch, found {}",
                                             call.name.text)}});
    good = false;
  }
  op.site = site(call.span);
  return good;
}

void Analyzer::microbatch(const ast::Expr &expr, CheckedOp &op) {
  static constexpr std::pair<llvm::StringRef, MicrobatchForm> forms[] = {
      {"next", MicrobatchForm::Next},
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
  notYet(suffix.span, fmt::format("`{}` after an op", suffix.word == "version" ? "using version" : suffix.word));
  return false;
}

} // namespace sluice
