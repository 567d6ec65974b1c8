#include "Driver/Compilation.h"

#include "Driver/Posted.h"
#include "Elaborate/Costs.h"
#include "Formats/SettingWords.h"
#include "Passes/Tighten.h"
#include "Syntax/Parse.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice {

std::string Instance::parameterText() const {
  std::vector<std::string> parts;
  for (const auto &[name, value] : parameters)
    parts.push_back(name + "=" + value);
  return llvm::join(parts, ", ");
}

bool Compilation::load(Span text, Diagnostics &diagnostics) {
  if (const Format *format = loader.formatOf(text))
    return loadFormatted(*format, text, diagnostics);
  ast = parse(sources, text, diagnostics);
  if (!ast)
    return false;
  file = analyze(*ast, sources, loader, diagnostics);
  return !diagnostics.hasErrors();
}

bool Compilation::loadFormatted(const Format &format, Span text, Diagnostics &diagnostics) {
  formatted = format.read(sources, text, {}, diagnostics, lost_);
  file.emplace();
  file->name = sources.locate(text.begin).file.str();
  return formatted.has_value();
}

std::vector<std::string> Compilation::schedules(const CompileOptions &options, const Setting &setting) const {
  if (formatted) {
    const std::string &name = formatted->program.name;
    return options.schedule.empty() || options.schedule == name ? std::vector{name}
                                                                : std::vector<std::string>();
  }
  auto hasValue = [&](const CheckedParam &param) {
    return param.value != noNode ||
           llvm::any_of(setting, [&](const Definition &d) { return d.name == param.name; });
  };
  std::vector<std::string> names;
  for (const CheckedSchedule &schedule : file->schedules)
    if (isChosen(schedule, options) && llvm::all_of(schedule.parameters, hasValue))
      names.push_back(schedule.name);
  return names;
}

bool Compilation::isChosen(const CheckedSchedule &schedule, const CompileOptions &options) {
  return options.schedule.empty() ? !schedule.isImported && !schedule.isUsed
                                  : schedule.name == options.schedule;
}

std::vector<std::string> Compilation::parameterNames(const CompileOptions &options) const {
  std::vector<std::string> names;
  for (const CheckedParam &param : file->params)
    names.push_back(param.name);
  for (const CheckedSchedule &schedule : file->schedules)
    for (const CheckedParam &param : schedule.parameters)
      if (isChosen(schedule, options) && !llvm::is_contained(names, param.name))
        names.push_back(param.name);
  return names;
}

std::optional<int64_t> Compilation::trainingCount(llvm::StringRef name, const Setting &setting,
                                                  Diagnostics &diagnostics) const {
  if (!file->training)
    return std::nullopt;
  const auto found = file->training->settings.find(name.str());
  if (found == file->training->settings.end() || file->settings[found->second].value == noNode)
    return std::nullopt;
  Evaluator evaluator(*file, diagnostics);
  evaluator.limitWork(ElaborateOptions().maxOps);
  std::vector<CheckedStep> lets;
  llvm::copy_if(file->steps, std::back_inserter(lets),
                [](const CheckedStep &step) { return step.kind == CheckedStep::Kind::Let; });
  if (!setParameters(file->params, setting, evaluator) || !evaluator.run(lets, file->params))
    return std::nullopt;
  return evaluator.evalInteger(file->settings[found->second].value, name);
}

/// A value outside its parameter's range is 106 at `given`, one that is no whole number 105.
bool Compilation::isInRange(const CheckedParam &param, Evaluator &evaluator, Span given,
                            llvm::StringRef fix) const {
  const Value &value = evaluator.get(param.slot);
  if (!param.range)
    return true;
  if (!value.isPlainInteger()) {
    Finding &finding = evaluator.diagnostics.report(Rule::NotAnInteger, given,
                                                    {{"what", param.name}, {"value", evaluator.str(value)}});
    finding.fix.message = "its range holds whole numbers";
    return false;
  }
  auto bounds = evaluator.evalRange(*param.range);
  if (!bounds)
    return false;
  // `in 1..1024` means what every range does: 1024 is not in it.
  if (value.number.num >= bounds->first && value.number.num < bounds->last)
    return true;
  Finding &finding =
      evaluator.diagnostics.report(Rule::ValueOutOfRange, given,
                                   {{"what", fmt::format("{} = {} is outside {}..{}", param.name,
                                                         value.number.num, bounds->first, bounds->last)}});
  if (given != param.span)
    finding.notes.push_back({"the range is given here", param.span, {}, {}});
  finding.fix.message = fix.empty()
                            ? fmt::format("-D {}={}", param.name,
                                          value.number.num < bounds->first ? bounds->first : bounds->last - 1)
                            : fix.str();
  return false;
}

bool Compilation::setParameters(llvm::ArrayRef<CheckedParam> params, const Setting &setting,
                                Evaluator &evaluator) const {
  for (const CheckedParam &param : params) {
    auto given = llvm::find_if(setting, [&](const Definition &d) { return d.name == param.name; });
    bool isGiven = given != setting.end();
    if (isGiven)
      evaluator.set(param.slot, given->value);
    else if (param.value != noNode && !evaluator.assign(param.slot, param.value))
      return false;
    if (!isInRange(param, evaluator, param.span, isGiven ? "" : "another default, or a wider range"))
      return false;
  }
  return true;
}

/// Follows `schedule main = c ? f(...) : g(...)` to the template and sets its parameters.
bool Compilation::instantiate(Instance &instance, const CheckedSchedule::Use &use,
                              Evaluator &evaluator) const {
  // The schedule itself is found further in, and passes apply from the inside out.
  instance.tightened.insert(instance.tightened.begin(), use.tightened.begin(), use.tightened.end());
  if (use.condition != noNode) {
    auto condition = evaluator.evalBoolean(use.condition, "the condition");
    return condition && instantiate(instance, use.branches[*condition ? 0 : 1], evaluator);
  }
  const CheckedSchedule &used = file->schedules[use.schedule];
  std::vector<Value> values(used.parameters.size());
  for (const auto &[position, node] : use.arguments)
    if (values[position] = evaluator.eval(node); !values[position])
      return false;
  for (size_t i = 0; i < values.size(); ++i) {
    const CheckedParam &param = used.parameters[i];
    if (values[i]) {
      evaluator.set(param.slot, values[i]);
    } else if (param.value == noNode) {
      evaluator.diagnostics
          .report(Rule::ValueMissing, use.span,
                  {{"figure", "schedule " + used.name}, {"setting", "parameter `" + param.name + "`"}})
          .fix.message = fmt::format("{}({} = ...)", used.name, param.name);
      return false;
    } else if (!evaluator.assign(param.slot, param.value)) {
      return false;
    }
    if (!isInRange(param, evaluator, use.span, "a value inside"))
      return false;
  }
  instance.uses.push_back(&used);
  return !used.derived || instantiate(instance, *used.derived, evaluator);
}

/// Sets the parameters of a schedule, or of the template it derives from, and runs its steps.
bool Compilation::prepare(Instance &instance, const CheckedSchedule &declared, const Setting &setting,
                          Evaluator &evaluator) const {
  instance.uses = {&declared};
  if (!setParameters(declared.parameters, setting, evaluator) ||
      (declared.derived && !instantiate(instance, *declared.derived, evaluator)))
    return false;
  const CheckedSchedule &schedule = *instance.uses.back();
  std::vector<CheckedParam> params = schedule.parameters;
  params.insert(params.end(), file->params.begin(), file->params.end());
  if (!evaluator.run(schedule.steps, params))
    return false;
  instance.schedule = &schedule;
  return true;
}

static bool hasErrorSince(const Diagnostics &diagnostics, size_t before) {
  return llvm::any_of(llvm::ArrayRef(diagnostics.findings()).drop_front(before),
                      [](const Finding &f) { return f.severity == Severity::Error; });
}

void Compilation::runSchedule(const CheckedSchedule &declared, const Setting &setting,
                              const CompileOptions &options, Depth depth, Evaluator &evaluator,
                              const std::function<void(Instance &)> &visit) const {
  Diagnostics &diagnostics = evaluator.diagnostics;
  diagnostics.setSchedule(declared.name);
  size_t before = diagnostics.findings().size();
  evaluator.limitWork(options.elaborate.maxOps);
  Instance instance;
  instance.name = declared.name;
  if (prepare(instance, declared, setting, evaluator)) {
    for (const CheckedAllow &allow : file->allows)
      if (allow.schedule == instance.schedule->name && depth >= Depth::Verify)
        diagnostics.allow(allow.rule, declared.name, allow.span, /*mayBeUnused=*/!isAsked(allow.rule, depth));
    // A template's own parameters stand beside those of the file and of the schedule that uses it.
    for (const auto *params : {static_cast<const std::vector<CheckedParam> *>(&file->params),
                               &declared.parameters, &instance.schedule->parameters})
      for (const CheckedParam &param : *params) {
        auto known = llvm::find_if(instance.parameters, [&](const auto &p) { return p.first == param.name; });
        std::string value = evaluator.str(evaluator.get(param.slot));
        if (known == instance.parameters.end())
          instance.parameters.emplace_back(param.name, value);
        else
          known->second = value;
      }
    compile(instance, options, depth, evaluator);
  }
  // What is wrong inside a library file was asked for here.
  if (declared.derived)
    for (size_t i = before; i < diagnostics.findings().size(); ++i)
      if (Finding &finding = diagnostics.findings()[i];
          finding.span.isValid() && sources.locate(finding.span.begin).file != file->name)
        finding.notes.push_back({"used here, as " + declared.name, declared.span, {}, {}});
  if (instance.isCompiled)
    visit(instance);
}

static void cannotTighten(const Program &program, OpId op, Span pass, Diagnostics &diagnostics) {
  const Op &found = program.ops[op];
  const char *suffix = found.has(KeepInput)                                    ? " keep input"
                       : found.has(KeepNothing)                                ? " keep nothing"
                       : found.has(OverlapFirst) || found.has(OverlapFollower) ? " in an overlap"
                                                                               : "";
  Finding &finding = diagnostics.report(
      Rule::WrongArguments, program.spanOf(op),
      {{"what",
        fmt::format("tighten moves forwards, backwards and their halves, found {}{}", str(found), suffix)}});
  finding.device = program.deviceOf(op);
  finding.op = str(program.ops[op]);
  finding.notes.push_back({"tightened here", pass, {}, {}});
  finding.fix.message = "leave out tighten";
}

void Compilation::compile(Instance &instance, const CompileOptions &options, Depth depth,
                          Evaluator &evaluator) const {
  Diagnostics &diagnostics = evaluator.diagnostics;
  size_t before = diagnostics.findings().size();
  auto failed = [&] { return hasErrorSince(diagnostics, before); };
  std::vector<int64_t> slots;
  if (options.progress)
    options.progress(instance.name, "elaborating");
  auto program = elaborate(*instance.schedule, evaluator, sources, options.elaborate,
                           instance.tightened.empty() ? nullptr : &slots);
  for (size_t i = 0; i < instance.tightened.size() && program; ++i) {
    Tightened tightened = tighten(*program, slots);
    slots.clear(); // they were those of the first
    if (!tightened.program)
      cannotTighten(*program, tightened.unsuited, instance.tightened[i], diagnostics);
    program = std::move(tightened.program);
  }
  if (!program || failed())
    return;
  instance.program = std::move(*program);
  instance.program.name = instance.name;
  auto costs = evaluateCosts(instance.program, *instance.schedule, evaluator, options.held);
  if (!costs || failed())
    return;
  instance.costs = std::move(*costs);
  if (instance.program.isExplicit)
    instance.costs.communication = "explicit";
  judge(instance, options, depth, evaluator);
}

/// Verifies a program as it is run, where that can make a difference.
Verdict Compilation::verifyPosted(const Instance &instance, Diagnostics &diagnostics) const {
  const bool mayBlock = instance.program.isExplicit || instance.costs.channels != ChannelRules();
  if (mayBlock)
    if (auto posted = postedProgram(instance))
      return verify(*posted, ProgramIndex(*posted), instance.costs, diagnostics, &sources);
  return verify(instance.program, *instance.index, instance.costs, diagnostics, &sources);
}

bool addTimeline(Instance &instance, Diagnostics &diagnostics) {
  if (!instance.timeline && !instance.posted)
    if (instance.posted = timedProgram(instance); instance.posted)
      instance.postedIndex = std::make_unique<ProgramIndex>(*instance.posted);
  if (!instance.timeline)
    instance.timeline = simulate(instance.timed(), instance.timedIndex(), instance.costs, diagnostics);
  return instance.timeline.has_value();
}

/// What follows once program and costs are there.
void Compilation::judge(Instance &instance, const CompileOptions &options, Depth depth,
                        Evaluator &evaluator) const {
  Diagnostics &diagnostics = evaluator.diagnostics;
  size_t before = diagnostics.findings().size();
  auto failed = [&] { return hasErrorSince(diagnostics, before); };
  CostModel &costs = instance.costs;
  // Cells hang under what runs them if they hang anywhere, so without a word that is assumed.
  const bool isCsv = instance.program.receivesWaitAtUse && !costs.hasChannelModel;
  if (const std::string transport = options.transport.empty() && isCsv ? "nccl" : options.transport;
      !transport.empty())
    setTransport(costs, transport);
  instance.isCompiled = true;
  if (depth == Depth::Elaborate)
    return;

  if (options.progress)
    options.progress(instance.name, "checking");
  instance.index = std::make_unique<ProgramIndex>(instance.program);
  instance.verdict = verifyPosted(instance, diagnostics);
  if (depth == Depth::Expectations && instance.verdict.complete && !failed())
    checkCosts(instance, diagnostics, sources);
  // A timeline only for what the library states would make checks slow.
  const bool withImported = depth == Depth::Figures || options.closedForms;
  bool wantsExpectations = depth >= Depth::Expectations && hasExpectations(*file, instance, withImported);
  if (instance.verdict.complete && (depth == Depth::Figures || (wantsExpectations && !failed()))) {
    if (options.progress)
      options.progress(instance.name, "simulating");
    if (addTimeline(instance, diagnostics))
      instance.figures = computeFigures(instance.timed(), instance.timedIndex(), instance.costs,
                                        *instance.timeline, diagnostics);
  }
  // An error silences figures: they would be those of another schedule than the one meant.
  if (wantsExpectations && !failed())
    checkExpectations(instance, evaluator, sources, withImported);
}

void Compilation::run(const Setting &setting, const CompileOptions &options, Depth depth,
                      Diagnostics &diagnostics, const std::function<void(Instance &)> &visit) const {
  // What `allow` silences is found by verify. Of the schedules not run some may need it.
  for (const CheckedAllow &allow : file->allows)
    if (allow.schedule.empty() && depth >= Depth::Verify)
      diagnostics.allow(allow.rule, "", allow.span,
                        /*mayBeUnused=*/!options.schedule.empty() || !isAsked(allow.rule, depth));
  Evaluator evaluator(*file, diagnostics);
  evaluator.limitWork(options.elaborate.maxOps);
  if (formatted)
    return runFormatted(options, depth, evaluator, visit);
  diagnostics.setSchedule("");
  if (!setParameters(file->params, setting, evaluator))
    return;
  setUniformSamples(evaluator, std::nullopt, options.held);
  if (!evaluator.run(file->steps, file->params))
    return;
  for (const std::string &name : schedules(options, setting))
    for (const CheckedSchedule &schedule : file->schedules)
      if (schedule.name == name)
        runSchedule(schedule, setting, options, depth, evaluator, visit);
  diagnostics.setSchedule("");
}

void Compilation::runFormatted(const CompileOptions &options, Depth depth, Evaluator &evaluator,
                               const std::function<void(Instance &)> &visit) const {
  if (schedules(options, {}).empty())
    return;
  Instance instance;
  instance.name = formatted->program.name;
  instance.program = formatted->program;
  instance.costs = formatted->costs;
  evaluator.diagnostics.setSchedule(instance.name);
  judge(instance, options, depth, evaluator);
  visit(instance);
  evaluator.diagnostics.setSchedule("");
}

void Compilation::runQueues(const Setting &setting, Diagnostics &diagnostics,
                            const std::function<void(const CheckedBlock &, Evaluator &)> &visit) const {
  Evaluator evaluator(*file, diagnostics);
  if (!setParameters(file->params, setting, evaluator) || !evaluator.run(file->steps, file->params))
    return;
  for (const CheckedBlock &queue : file->queues)
    visit(queue, evaluator);
}

Equivalence equivalenceOf(const Instance &instance, const Diagnostics &diagnostics) {
  std::vector<Finding> own;
  for (const Finding &finding : diagnostics.findings())
    if (finding.schedule == instance.name || finding.schedule.empty() ||
        llvm::is_contained(finding.alsoIn, instance.name))
      own.push_back(finding);
  return equivalenceOf(instance.program, instance.costs, own);
}

std::string reach(const Instance &instance) {
  std::string parameters = instance.parameterText();
  std::string text = instance.name + (parameters.empty() ? "" : " at " + parameters);
  const CostModel &costs = instance.costs;
  if (costs.hasChannelModel)
    text += "; completes under " + costs.transport;
  else if (costs.communication == "early")
    text += "; completes under every channel model";
  else
    text += "; completes under unbounded channels";
  text += instance.program.isExplicit ? "; communication as written"
                                      : fmt::format("; communication added by {}", costs.communication);
  text += "; not covered: ";
  text += "collectives outside the pipeline, what the job passes for n_microbatches";
  if (!costs.memoryLimit.empty() && llvm::is_contained(costs.notCounted, "activation"))
    text += ", activations against the memory limit (the file gives no size of them)";
  if (llvm::is_contained(costs.batchNormStage, true))
    text += ", batch norm over microbatches instead of the batch";
  return text;
}

} // namespace sluice
