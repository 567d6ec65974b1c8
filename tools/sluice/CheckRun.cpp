#include "CheckRun.h"
#include "Progress.h"

#include "Driver/CsvFile.h"
#include "Driver/Queue.h"
#include "Driver/Region.h"
#include "Driver/Sweep.h"
#include "Emit/FindingsGithub.h"
#include "Emit/FindingsJunit.h"
#include "Emit/FindingsSarif.h"
#include "Emit/FindingsText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice::tool {

ExitCode CheckRun::start() {
  std::string error;
  allSettings = parseDefinitions(definitions, error);
  if (!error.empty())
    return usageError("-D: " + error);
  return checkTransport(options);
}

void CheckRun::prepare(Diagnostics &diagnostics) const {
  for (const auto &[rule, severity] : severities)
    diagnostics.setSeverity(rule, severity);
}

void CheckRun::add(Diagnostics &diagnostics) {
  allowed += diagnostics.finish();
  findings.insert(findings.end(), diagnostics.findings().begin(), diagnostics.findings().end());
}

/// The settings of `-D` that concern this file: in a folder parameters belong to the files that have them.
void CheckRun::keepOwnParameters(const Compilation &compilation) {
  std::vector<std::string> known = compilation.parameterNames(options), own;
  for (const std::string &definition : definitions)
    if (llvm::StringRef name = llvm::StringRef(definition).split('=').first.trim();
        llvm::is_contained(known, name)) {
      own.push_back(definition);
      parametersSeen.insert(name.str());
    }
  std::string error; // none: `start` has read them all
  settings = parseDefinitions(own, error);
}

ExitCode CheckRun::finishFolder(const std::string &path) const {
  for (const std::string &definition : definitions)
    if (std::string name = llvm::StringRef(definition).split('=').first.trim().str();
        !parametersSeen.count(name))
      return usageError("-D " + name + ": no file in " + path + " has a parameter of this name");
  return Clean;
}

ExitCode CheckRun::file(const std::string &path, bool inFolder) {
  FileLoader::Result read = loader.openSchedule(path);
  if (!read.error.empty())
    return usageError("cannot read " + path + ": " + read.error);
  // A folder may hold tables of other things.
  if (inFolder && isCsvFile(path) && !isCsvText(sources.text(loader.open(path).text)))
    return Clean;
  paths.insert(path);
  Diagnostics diagnostics;
  prepare(diagnostics);
  Compilation compilation(sources, loader);
  if (!compilation.load(read.text, diagnostics)) {
    add(diagnostics);
    return Clean;
  }
  settings = allSettings;
  if (inFolder)
    keepOwnParameters(compilation);
  bool hasSchedules = !compilation.schedules(options, settings[0]).empty();
  if (!hasSchedules && !compilation.checked().queues.empty()) {
    queues(path, compilation, diagnostics);
    return Clean;
  }
  if (!hasSchedules && inFolder) {
    add(diagnostics);
    return Clean;
  }
  if (!checkNames(compilation, settings, options))
    return Usage;
  ++schedules;
  if (equivalence && settings.size() > 1)
    return usageError("--equivalence speaks of one setting: give each -D one value");
  if (settings.size() == 1)
    single(path, compilation, diagnostics);
  else
    several(path, compilation, diagnostics);
  return Clean;
}

/// A file of queue labs alone: their settings are looked at, nothing more.
void CheckRun::queues(const std::string &path, Compilation &compilation, Diagnostics &diagnostics) {
  std::vector<std::string> names;
  compilation.runQueues(settings[0], diagnostics, [&](const CheckedBlock &queue, Evaluator &evaluator) {
    if (sluice::runQueue(queue, evaluator, 0))
      names.push_back("queue " + queue.name.value_or(""));
  });
  add(diagnostics);
  if (!diagnostics.hasErrors())
    verdicts.push_back({path, "clean: " + llvm::join(names, ", ") + "; no schedule"});
}

void CheckRun::single(const std::string &path, Compilation &compilation, Diagnostics &diagnostics) {
  std::vector<std::pair<std::string, std::string>> reached;
  std::vector<std::pair<size_t, Equivalence>> equivalences; // by place in `checked`
  Progress progress;
  CompileOptions told = options;
  told.progress = [&](llvm::StringRef schedule, llvm::StringRef doing) {
    progress.step((doing + " " + schedule).str());
  };
  compilation.run(settings[0], told, Compilation::Depth::Expectations, diagnostics, [&](Instance &instance) {
    reached.emplace_back(instance.name, reach(instance));
    checked.push_back(
        {instance.name, 1, instance.parameters, instance.costs.transport, instance.costs.communication});
    if (equivalence && instance.isCompiled)
      equivalences.emplace_back(checked.size() - 1, equivalenceOf(instance, diagnostics));
  });
  progress.finish();
  add(diagnostics);
  for (const auto &[name, line] : reached)
    if (llvm::none_of(diagnostics.findings(), [&](const Finding &f) {
          return f.severity != Severity::Note &&
                 (f.schedule == name || f.schedule.empty() || llvm::is_contained(f.alsoIn, name));
        }))
      verdicts.push_back({path, "clean: " + line});
  for (auto &[number, verdict] : equivalences) {
    const std::string &schedule = checked[number].schedule;
    verdicts.push_back({path, fmt::format("equivalence of {}: {}", schedule, sluice::str(verdict))});
    checked[number].equivalence = std::move(verdict);
  }
}

/// Every setting, smallest first; of findings with one rule and place the first is kept.
void CheckRun::several(const std::string &path, Compilation &compilation, Diagnostics &first) {
  add(first);
  Progress progress;
  Sweep sweep = sluice::sweep(compilation, settings, options,
                              {threads, [&](Diagnostics &diagnostics) { prepare(diagnostics); },
                               [&](size_t done) { progress.count(done, settings.size(), "checked"); }});
  progress.finish();
  allowed += sweep.allowed;
  for (Finding &finding : findingsOf(sweep, settings))
    findings.push_back(std::move(finding));
  summarize(path, sweep);
}

/// What became of each schedule: where it is clean, or where it fails.
void CheckRun::summarize(const std::string &path, const Sweep &sweep) {
  for (const Sweep::Schedule &schedule : sweep.named()) {
    std::vector<Outcome> outcomes(settings.size(), Outcome::Passes);
    size_t clean = 0, refused = 0, faulty = 0;
    std::string smallest;
    for (size_t i = 0; i < settings.size(); ++i) {
      unsigned state = schedule.states[i] | sweep.file().states[i];
      if (state & Sweep::Faulty) {
        outcomes[i] = Outcome::Fails;
        if (faulty++ == 0)
          smallest = str(settings[i]);
      } else if (state & Sweep::Refused) {
        outcomes[i] = Outcome::Refused;
        ++refused;
      } else if (state & Sweep::Ran) {
        ++clean;
      }
    }
    if (faulty > 0) {
      std::string region = describeRegion(settings, outcomes);
      failing.push_back({schedule.name, faulty, smallest, region});
      // One finding has said it already.
      if (llvm::count_if(sweep.findings, [&](const SweptFinding &swept) {
            return swept.finding.severity == Severity::Error && concerns(swept.finding, schedule.name);
          }) > 1)
        verdicts.push_back({path, fmt::format("failing: {} at {} of {} settings, smallest {}{}{}{}",
                                              schedule.name, faulty, settings.size(), smallest,
                                              region.empty() ? "" : ", ", region, refusedText(refused))});
      continue;
    }
    nothingChecked = nothingChecked || clean == 0;
    verdicts.push_back(
        {path, fmt::format("{}: {} at {} of {} settings{}", clean == 0 ? "nothing checked" : "clean",
                           schedule.name, clean, settings.size(), refusedText(refused))});
    if (clean > 0)
      checked.push_back({schedule.name, clean, {}, options.transport, schedule.communication});
  }
}

void CheckRun::printText() const {
  print(findingsText(findings, sources, {stdoutHasColors(), 100}));
  for (const Verdict &verdict : verdicts)
    print((paths.size() > 1 ? verdict.path + ": " : "") + verdict.text + "\n");
  if (findings.empty() && allowed == 0)
    return;
  auto plural = [](unsigned count, const char *word) {
    return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
  };
  const FindingCounts counts = countFindings(findings);
  print(fmt::format("{}, {}, {}{}\n", plural(counts.errors, "error"), plural(counts.warnings, "warning"),
                    plural(counts.notes, "note"), allowed == 0 ? "" : fmt::format(", {} allowed", allowed)));
}

/// A verdict that is clean is a case that passes; what fails has its findings.
std::string CheckRun::junit(Severity threshold) const {
  std::vector<CleanCase> clean;
  for (const Verdict &verdict : verdicts)
    if (llvm::StringRef(verdict.text).starts_with("clean: "))
      clean.push_back({verdict.path, verdict.text});
  return findingsJunit(findings, clean, threshold, sources);
}

ExitCode CheckRun::finish(Severity threshold, Form form) {
  llvm::stable_sort(findings, [](const Finding &a, const Finding &b) { return a.span.begin < b.span.begin; });
  switch (form) {
  case Form::Text:
    printText();
    break;
  case Form::Json:
    print(findingsJson(findings, checked, failing, allowed, sources));
    break;
  case Form::Sarif:
    print(findingsSarif(findings, sources));
    break;
  case Form::Github:
    print(findingsGithub(findings, sources));
    break;
  case Form::Junit:
    print(junit(threshold));
    break;
  }
  bool fails = llvm::any_of(findings, [&](const Finding &f) { return f.severity >= threshold; });
  return fails || nothingChecked ? Findings : Clean;
}

} // namespace sluice::tool
