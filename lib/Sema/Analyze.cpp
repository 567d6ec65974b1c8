#include "Sema/Analyze.h"

#include "Sema/Analyzer.h"
#include "Syntax/Parse.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice {

void Analyzer::declare(const std::string &name, Entry entry, Hiding hiding) {
  Scope &innermost = scopes.back();
  Entry *seen = nullptr;
  if (hiding == Hiding::Refused)
    seen = lookUp(name);
  else if (auto here = innermost.find(name); here != innermost.end())
    seen = &here->second;
  if (seen && seen->span.isValid()) {
    diagnostics
        .report(Rule::DuplicateName, entry.span,
                {{"name", name}, {"line", std::to_string(sources.locate(seen->span.begin).line)}})
        .notes.push_back({"defined here", seen->span, {}, {}});
    diagnostics.findings().back().fix.message = "take another name";
    innermost.try_emplace(name, entry); // uses after it mean the first
    return;
  }
  innermost[name] = entry;
}

SlotId Analyzer::declareSlot(const ast::Identifier &name, Hiding hiding) {
  SlotId slot = result.code.addSlot(name.text);
  declare(name.text, {Entry::Kind::Slot, slot, name.span}, hiding);
  return slot;
}

Analyzer::Entry *Analyzer::lookUp(llvm::StringRef name) {
  for (Scope &scope : llvm::reverse(scopes))
    if (auto found = scope.find(name.str()); found != scope.end())
      return &found->second;
  return nullptr;
}

void Analyzer::unknown(Span span, llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> more) {
  std::vector<llvm::StringRef> candidates(more.begin(), more.end());
  for (const Scope &scope : scopes)
    for (const auto &[known, entry] : scope)
      candidates.push_back(known);
  for (const auto *block : {&result.model, &result.training, &result.cluster})
    if (*block)
      for (const auto &[known, index] : (*block)->settings)
        candidates.push_back(known);
  llvm::StringRef near = nearest(name, candidates);
  diagnostics.report(Rule::UnknownName, span, {{"name", name.str()}}).fix.message =
      near.empty() ? "names are defined before their use: param, let, fn" : near.str() + "?";
}

void Analyzer::notYet(Span span, std::string what) {
  diagnostics.report(Rule::NotSupportedYet, span, {{"what", std::move(what)}});
}

void Analyzer::param(const ast::Param &param, bool isImported) {
  CheckedParam checked;
  checked.name = param.name.text;
  checked.span = param.name.span;
  checked.documentation = param.documentation;
  checked.value = expr(*param.value);
  checked.range = range(param.range);
  checked.slot = declareSlot(param.name);
  // What an imported file calls a parameter is its own affair: there it keeps its default.
  if (isImported)
    result.steps.push_back({CheckedStep::Kind::Let, checked.slot, checked.value, {}, checked.span});
  else
    result.params.push_back(std::move(checked));
}

void Analyzer::function(const ast::Function &function) {
  auto index = static_cast<uint32_t>(result.code.functions.size());
  result.code.functions.push_back({function.name.text, {}, noNode});
  declare(function.name.text, {Entry::Kind::Function, index, function.name.span, true});
  inScope([&] {
    std::vector<SlotId> parameters;
    for (const ast::Identifier &parameter : function.parameters)
      parameters.push_back(declareSlot(parameter, Hiding::Allowed));
    result.code.functions[index].parameters = parameters;
    NodeId body = expr(*function.body);
    result.code.functions[index].body = body;
  });
  lookUp(function.name.text)->isBeingDefined = false;
}

CheckedStep Analyzer::let(const ast::Identifier &name, const ast::Expr &value) {
  NodeId code = expr(value);
  return {CheckedStep::Kind::Let, declareSlot(name), code, {}, name.span};
}

CheckedStep Analyzer::requirement(const ast::Require &require) {
  std::string message = require.message;
  if (message.empty())
    message = sources.text(require.condition->span).str() + " does not hold";
  return {CheckedStep::Kind::Require, noSlot, expr(*require.condition), message, require.span};
}

void Analyzer::allowance(const ast::Allow &allow, const std::string &schedule) {
  const RuleInfo *rule = findRule(allow.rule);
  if (rule && rule->severity == Severity::Error) {
    diagnostics.report(Rule::WrongArguments, allow.span,
                       {{"what", fmt::format("{} is an error, and errors cannot be allowed", allow.rule)}});
    return;
  }
  if (rule) {
    result.allows.push_back({rule->rule, schedule, allow.span});
    return;
  }
  std::vector<llvm::StringRef> names;
  for (const RuleInfo &known : allRules())
    names.push_back(known.name);
  llvm::StringRef near = nearest(allow.rule, names);
  diagnostics.report(Rule::UnknownName, allow.span, {{"name", "rule " + allow.rule}}).fix.message =
      near.empty() ? "`sluice explain` lists the rules" : near.str() + "?";
}

void Analyzer::expect(const ast::Expect &expect, bool isImported) {
  CheckedExpect checked;
  checked.isImported = isImported;
  checked.span = expect.name.span;
  Entry *entry = lookUp(expect.name.text);
  if (!entry || entry->kind != Entry::Kind::Schedule) {
    std::vector<llvm::StringRef> names;
    for (const CheckedSchedule &schedule : result.schedules)
      names.push_back(schedule.name);
    llvm::StringRef near = nearest(expect.name.text, names);
    diagnostics.report(Rule::UnknownName, expect.name.span, {{"name", "schedule " + expect.name.text}})
        .fix.message = near.empty() ? "expectations follow the schedule they speak of" : near.str() + "?";
    return;
  }
  // The schedule's own parameters are in scope beside the file's names.
  checked.schedule = entry->index;
  const CheckedSchedule &schedule = result.schedules[entry->index];
  hidesSettings = isImported;
  inScope([&] {
    for (const CheckedParam &param : schedule.parameters)
      scopes.back()[param.name] = {Entry::Kind::Slot, param.slot, {}};
    for (const ast::Expected &item : expect.items) {
      CheckedExpected expected;
      expected.span = item.span;
      inScope([&] {
        if (item.range) {
          expected.range = range(*item.range, item.step);
          expected.variable = declareSlot(*item.variable);
        }
        expecting = Expecting::Condition;
        expected.condition = optional(item.condition);
        expecting = Expecting::Comparison;
        expected.comparison = optional(item.comparison);
        expecting = Expecting::Nothing;
      });
      for (const ast::ExprPtr &model : item.under)
        expected.models.push_back(sources.text(model->span).str());
      checked.items.push_back(std::move(expected));
    }
  });
  hidesSettings = false;
  result.expects.push_back(std::move(checked));
}

void Analyzer::importFile(const ast::Import &import, const std::string &from) {
  auto fail = [&](std::string reason, std::string fix) {
    diagnostics
        .report(Rule::ImportFailed, import.span,
                {{"path", fmt::format("\"{}\"", import.path)}, {"reason", std::move(reason)}})
        .fix.message = std::move(fix);
  };
  FileReader::Result read = reader.read(import.path, from);
  if (!read.error.empty()) {
    std::vector<std::string> known = reader.known();
    std::vector<llvm::StringRef> candidates(known.begin(), known.end());
    llvm::StringRef near = nearest(import.path, candidates);
    if (near.empty())
      near = nearest("std/" + import.path, candidates);
    bool library = llvm::StringRef(import.path).starts_with("std/");
    return fail(read.error, !near.empty() ? fmt::format("\"{}\"?", near.str())
                            : library     ? "the library has " + llvm::join(known, ", ")
                                          : "paths are relative to the importing file, or start with std/");
  }
  std::string name = sources.locate(read.text.begin).file.str();
  if (llvm::is_contained(importing, name)) {
    std::vector<std::string> chain(llvm::find(importing, name), importing.end());
    chain.push_back(name);
    return fail("it imports itself: " + llvm::join(chain, " -> "), "delete one import of the chain");
  }
  auto found = imported.find(name);
  if (found == imported.end()) {
    Scope offered;
    if (auto tree = parse(sources, read.text, diagnostics)) {
      std::vector<Scope> outer = std::exchange(scopes, {});
      file(*tree, /*isImported=*/true);
      offered = std::exchange(scopes, std::move(outer)).front();
    }
    found = imported.emplace(name, std::move(offered)).first;
  }
  for (const auto &[offered, entry] : found->second)
    if (entry.kind == Entry::Kind::Schedule || entry.kind == Entry::Kind::Function)
      if (Entry *seen = lookUp(offered); !seen || seen->kind != entry.kind || seen->index != entry.index)
        declare(offered, {entry.kind, entry.index, import.span});
}

void Analyzer::file(const ast::File &file, bool isImported) {
  std::string outerFile = std::exchange(fileName, file.name);
  importing.push_back(file.name);
  auto leave = llvm::make_scope_exit([&] {
    importing.pop_back();
    fileName = std::move(outerFile);
  });
  scopes.emplace_back();
  // A model may speak of samples(m) that a later block gives, so blocks are declared before anything else.
  if (!isImported)
    for (const ast::Item &item : file.items)
      if (auto *block = std::get_if<ast::Block>(&item))
        declareBlock(*block);
  if (result.training && !isImported && !result.training->settings.count("samples")) {
    CheckedSetting samples;
    samples.name = "samples";
    samples.span = result.training->span;
    result.uniformSamples = result.code.addSlot("samples");
    samples.value = result.code.add({NodeOp::Slot, samples.span, result.uniformSamples});
    result.training->settings["samples"] = static_cast<uint32_t>(result.settings.size());
    result.settings.push_back(std::move(samples));
  }
  for (const ast::Item &item : file.items) {
    if (auto *param = std::get_if<ast::Param>(&item))
      this->param(*param, isImported);
    else if (auto *let = std::get_if<ast::Let>(&item))
      result.steps.push_back(this->let(let->name, *let->value));
    else if (auto *function = std::get_if<ast::Function>(&item))
      this->function(*function);
    else if (auto *require = std::get_if<ast::Require>(&item))
      result.steps.push_back(requirement(*require));
    else if (auto *import = std::get_if<ast::Import>(&item))
      importFile(*import, file.name);
    else if (auto *schedule = std::get_if<ast::Schedule>(&item))
      this->schedule(*schedule, isImported);
    else if (auto *block = std::get_if<ast::Block>(&item); block && !isImported)
      fillBlock(*block);
    else if (auto *expect = std::get_if<ast::Expect>(&item))
      this->expect(*expect, isImported);
    else if (auto *allow = std::get_if<ast::Allow>(&item); allow && !isImported)
      allowance(*allow, "");
  }
}

/// The smallest unit of time that an expression writes; `best` so far, empty for none.
static void findTimeUnit(const Code &code, const SourceManager &sources, std::string &best) {
  static constexpr llvm::StringRef order[] = {"ns", "us", "ms", "s"};
  for (const Node &node : code.nodes) {
    if (node.op != NodeOp::Constant || !node.span.isValid() ||
        code.constants[node.a].dimension != timeDimension)
      continue;
    llvm::StringRef text = sources.text(node.span).rtrim();
    for (llvm::StringRef unit : order)
      if (text.ends_with(unit)) {
        if (best.empty() || llvm::find(order, unit) < llvm::find(order, llvm::StringRef(best)))
          best = unit.str();
        break;
      }
  }
}

CheckedFile analyze(const ast::File &file, const SourceManager &sources, FileReader &reader,
                    Diagnostics &diagnostics) {
  CheckedFile result;
  result.name = file.name;
  Analyzer analyzer(result, sources, reader, diagnostics);
  analyzer.file(file, /*isImported=*/false);
  if (result.profile)
    result.timeUnit = result.profile->unit;
  findTimeUnit(result.code, sources, result.timeUnit);
  return result;
}

} // namespace sluice
