#include "CheckRun.h"

#include "Driver/CsvFile.h"
#include "Driver/Queue.h"
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
  compilation.run(settings[0], options, Compilation::Depth::Expectations, diagnostics,
                  [&](Instance &instance) {
                    reached.emplace_back(instance.name, reach(instance));
                    checked.push_back({instance.name, 1, instance.parameters, instance.costs.transport,
                                       instance.costs.communication});
                  });
  add(diagnostics);
  for (const auto &[name, line] : reached)
    if (llvm::none_of(diagnostics.findings(), [&](const Finding &f) {
          return f.severity != Severity::Note &&
                 (f.schedule == name || f.schedule.empty() || llvm::is_contained(f.alsoIn, name));
        }))
      verdicts.push_back({path, "clean: " + line});
}

static std::string describe(const Setting &setting) {
  std::vector<std::string> parts;
  for (const Definition &definition : setting) {
    const Value &value = definition.value;
    std::string text = value.isNumber() ? sluice::format(Quantity{value.number, value.dimension})
                                        : (value.isTrue() ? "true" : "false");
    parts.push_back(definition.name + "=" + text);
  }
  return llvm::join(parts, ", ");
}

/// Every setting, smallest first; of findings with one rule and place the first is kept.
void CheckRun::several(const std::string &path, Compilation &compilation, Diagnostics &first) {
  struct Seen {
    Finding finding;
    std::string setting;
    size_t count = 0, last = 0;
  };
  struct Counts {
    size_t clean = 0, refused = 0;
  };
  std::map<std::pair<uint32_t, unsigned>, Seen> seen;
  std::map<std::string, Counts> counts;
  std::string communication = "early";
  add(first);
  for (const std::string &name : compilation.schedules(options, settings[0]))
    counts[name];
  for (size_t i = 0; i < settings.size(); ++i) {
    Diagnostics diagnostics;
    prepare(diagnostics);
    std::set<std::string> ran;
    compilation.run(settings[i], options, Compilation::Depth::Expectations, diagnostics,
                    [&](Instance &instance) {
                      ran.insert(instance.name);
                      communication = instance.costs.communication;
                    });
    allowed += diagnostics.finish();
    std::set<std::string> faulty, refused;
    for (const Finding &finding : diagnostics.findings()) {
      // A setting that the file itself rules out is no fault of the schedule.
      if (finding.rule == Rule::RequireFailed) {
        refused.insert(finding.schedule);
        refused.insert(finding.alsoIn.begin(), finding.alsoIn.end());
        continue;
      }
      if (finding.severity == Severity::Error) {
        faulty.insert(finding.schedule);
        faulty.insert(finding.alsoIn.begin(), finding.alsoIn.end());
      }
      Seen &entry = seen[{finding.span.begin, static_cast<unsigned>(finding.rule)}];
      if (entry.count == 0) {
        entry.finding = finding;
        entry.setting = describe(settings[i]);
      }
      if (entry.count == 0 || entry.last != i)
        ++entry.count;
      entry.last = i;
    }
    for (auto &[name, count] : counts) {
      count.refused += refused.count(name) || refused.count("");
      count.clean += ran.count(name) && !faulty.count(name) && !faulty.count("");
    }
  }
  auto refusedText = [&](const std::string &name) {
    size_t refused = counts[name].refused;
    return refused == 0 ? "" : fmt::format("; {} refused by require", refused);
  };
  std::set<std::string> faulty;
  for (auto &[key, entry] : seen) {
    if (entry.finding.rule == Rule::UnusedAllow && entry.count < settings.size())
      continue; // it is needed at another setting
    bool error = entry.finding.severity == Severity::Error;
    entry.finding.instance =
        fmt::format("{} at {} of {}, smallest {}{}", error ? "fails" : "found", entry.count, settings.size(),
                    entry.setting, refusedText(entry.finding.schedule));
    if (error) {
      faulty.insert(entry.finding.schedule);
      faulty.insert(entry.finding.alsoIn.begin(), entry.finding.alsoIn.end());
    }
    findings.push_back(entry.finding);
  }
  for (const auto &[name, count] : counts) {
    if (faulty.count(name) || faulty.count(""))
      continue;
    bool none = count.clean == 0;
    nothingChecked = nothingChecked || none;
    verdicts.push_back({path, fmt::format("{}: {} at {} of {} settings{}", none ? "nothing checked" : "clean",
                                          name, count.clean, settings.size(), refusedText(name))});
    if (!none)
      checked.push_back({name, count.clean, {}, options.transport, communication});
  }
}

ExitCode CheckRun::finish(Severity threshold, bool json) {
  llvm::stable_sort(findings, [](const Finding &a, const Finding &b) { return a.span.begin < b.span.begin; });
  FindingCounts counts = countFindings(findings);
  if (json) {
    print(findingsJson(findings, checked, allowed, sources));
  } else {
    print(findingsText(findings, sources, {stdoutHasColors(), 100}));
    for (const Verdict &verdict : verdicts)
      print((paths.size() > 1 ? verdict.path + ": " : "") + verdict.text + "\n");
    if (!findings.empty() || allowed > 0) {
      auto plural = [](unsigned count, const char *word) {
        return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
      };
      print(fmt::format("{}, {}, {}{}\n", plural(counts.errors, "error"), plural(counts.warnings, "warning"),
                        plural(counts.notes, "note"),
                        allowed == 0 ? "" : fmt::format(", {} allowed", allowed)));
    }
  }
  bool fails = llvm::any_of(findings, [&](const Finding &f) { return f.severity >= threshold; });
  return fails || nothingChecked ? Findings : Clean;
}

} // namespace sluice::tool
