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
  currentSettings.clear();
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
  if (checked.firstCommunication.isValid() && !checked.isExplicit)
    diagnostics
        .report(Rule::WrongArguments, checked.firstCommunication,
                {{"what", fmt::format("{} is written in a schedule whose communication is inferred",
                                      sources.text(checked.firstCommunication).str())}})
        .fix.message = "communication = explicit;";
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
    if (expr.children.size() != 1) {
      wrongCount(expr, "one schedule");
      return use;
    }
    use = this->use(*expr.children[0]);
    use.tightened.push_back(expr.span);
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
      position = static_cast<size_t>(
          llvm::find_if(used.parameters, [&](const CheckedParam &p) { return p.name == name; }) -
          used.parameters.begin());
    if (position >= used.parameters.size()) {
      std::vector<std::string> names;
      for (const CheckedParam &param : used.parameters)
        names.push_back(param.name);
      diagnostics.report(
          Rule::WrongArguments, expr.children[i]->span,
          {{"what", fmt::format("{} takes {}, found {}", used.name,
                                names.empty() ? "no parameters" : llvm::join(names, ", "),
                                name.empty() ? fmt::format("{} values", expr.children.size()) : name)}});
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
      diagnostics.report(
          Rule::DuplicateName, table->span,
          {{"name", "table"}, {"line", std::to_string(sources.locate(current->table->span.begin).line)}});
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
  auto [first, isNew] = currentSettings.try_emplace(setting.name.text, setting.span);
  if (!isNew)
    return duplicate(setting.name, first->second);
  if (info->type == SettingType::Count) {
    const bool isBuffer = setting.name.text == "buffer";
    return number(isBuffer ? current->buffer : current->sequenceSplits, *info, setting);
  }
  CheckedSetting checked;
  checked.span = setting.span;
  word(checked, *info, setting);
  if (setting.name.text == "versions" && !checked.words.empty()) {
    current->versions = checked.words[0] == "newest"   ? VersionRule::Newest
                        : checked.words[0] == "queued" ? VersionRule::Queued
                                                       : VersionRule::Stashed;
    if (!checked.operands.empty()) {
      checked.value = checked.operands[0];
      current->mostVersions = std::move(checked);
    }
    return;
  }
  if (setting.name.text == "phase" && !checked.words.empty()) {
    current->isEvaluation = checked.words[0] == "evaluation";
    current->phaseSpan = setting.span;
    return;
  }
  if (setting.name.text != "communication" || checked.words.empty())
    return;
  current->communicationSpan = setting.span;
  if (checked.words[0] == "explicit")
    current->isExplicit = true;
  else if (checked.words.size() == 2 && (checked.words[1] == "early" || checked.words[1] == "just_in_time"))
    current->communication = checked.words[1];
  else
    diagnostics.report(Rule::UnknownName, setting.span, {{"name", "this placement"}}).fix.message =
        "inferred(early), inferred(just_in_time) or explicit";
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
  case Statement::Kind::Overlap: {
    const bool isGroup = statement.kind == Statement::Kind::Group;
    const char *what = isGroup ? "group" : "overlap";
    checked.kind = isGroup ? Kind::Group : Kind::Overlap;
    if (inOverlap || inGroup) {
      diagnostics.report(
          Rule::SyntaxError, statement.span,
          {{"what", "an op"},
           {"token", fmt::format("\"{}\" inside {}", what, inGroup ? "a group" : "an overlap")}});
      return std::nullopt;
    }
    (isGroup ? inGroup : inOverlap) = true;
    checked.body = statements(statement.body);
    inOverlap = inGroup = false;
    if (statement.body.empty())
      diagnostics.report(Rule::SyntaxError, statement.span,
                         {{"what", fmt::format("the ops of the {}", what)}, {"token", "none"}});
    return checked;
  }
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
      diagnostics.report(
          Rule::SyntaxError, statement.span,
          {{"what", inTimetable ? "fill backward_weight(oldest)" : "an op"},
           {"token", inTimetable ? "\"fill " + checked.op.text + "\"" : "fill outside a timetable"}});
      return std::nullopt;
    }
    current->usesPending = true;
    return checked;
  }
  return std::nullopt;
}

} // namespace sluice
