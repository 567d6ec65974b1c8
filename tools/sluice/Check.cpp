// sluice check: findings on stdout; the exit code says whether there are any.
#include "Common.h"

#include "Emit/FindingsJson.h"
#include "Emit/FindingsText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <fmt/format.h>

namespace sluice::tool {

namespace cl = llvm::cl;

static cl::list<std::string> paths(cl::Positional, cl::desc("FILE|FOLDER|-..."), cl::sub(checkCommand));
static cl::opt<std::string> format("format", cl::desc("text or json"), cl::init("text"), cl::sub(checkCommand));
static cl::opt<std::string> failOn("fail-on", cl::desc("Least severity that makes the exit code 1: error, warning "
                                                       "or note"),
                                   cl::init("error"), cl::sub(checkCommand));
static cl::list<std::string> deny("deny", cl::desc("Make a rule an error"), cl::value_desc("RULE"),
                                  cl::sub(checkCommand));
static cl::list<std::string> warn("warn", cl::desc("Make a rule a warning"), cl::value_desc("RULE"),
                                  cl::sub(checkCommand));

namespace {

/// All files of one run: their findings together, and what was found clean.
class CheckRun {
public:
  ExitCode file(const std::string &path);
  ExitCode finish(Severity threshold);
  bool setSeverities(Diagnostics &diagnostics);

private:
  void single(Compilation &compilation, const Setting &setting, Diagnostics &diagnostics);
  void several(Compilation &compilation, Diagnostics &diagnostics);
  void add(Diagnostics &diagnostics);

  SourceManager sources;
  FileLoader loader{sources};
  std::vector<Finding> findings;
  std::vector<CheckedInstance> checked;
  std::vector<std::string> cleanLines;
  std::vector<Setting> settings;
  CompileOptions options = compileOptions();
  unsigned allowed = 0;
};

} // namespace

bool CheckRun::setSeverities(Diagnostics &diagnostics) {
  for (const auto &[names, severity] : {std::pair(&deny, Severity::Error), {&warn, Severity::Warning}})
    for (const std::string &name : *names) {
      const RuleInfo *rule = findRule(name);
      if (!rule) {
        usageError("there is no rule \"" + name + "\": `sluice explain` lists them");
        return false;
      }
      diagnostics.setSeverity(rule->rule, severity);
    }
  return true;
}

void CheckRun::add(Diagnostics &diagnostics) {
  allowed += diagnostics.finish();
  findings.insert(findings.end(), diagnostics.findings().begin(), diagnostics.findings().end());
}

ExitCode CheckRun::file(const std::string &path) {
  std::string error;
  settings = parseDefinitions(definitions, error);
  if (!error.empty())
    return usageError("-D: " + error);
  FileLoader::Result read = loader.open(path);
  if (!read.error.empty())
    return usageError("cannot read " + path + ": " + read.error);
  Diagnostics diagnostics;
  if (!setSeverities(diagnostics))
    return Usage;
  Compilation compilation(sources, loader);
  if (!compilation.load(read.text, diagnostics)) {
    add(diagnostics);
    return Clean;
  }
  if (!checkNames(compilation, settings, options))
    return Usage;
  if (settings.size() == 1)
    single(compilation, settings[0], diagnostics);
  else
    several(compilation, diagnostics);
  return Clean;
}

void CheckRun::single(Compilation &compilation, const Setting &setting, Diagnostics &diagnostics) {
  std::vector<std::pair<std::string, std::string>> reached;
  std::vector<CheckedInstance> instances;
  compilation.run(setting, options, Compilation::Depth::Expectations, diagnostics, [&](Instance &instance) {
    reached.emplace_back(instance.name, reach(instance));
    instances.push_back(
        {instance.name, instance.parameters, instance.costs.transport, instance.costs.communication});
  });
  add(diagnostics);
  checked.insert(checked.end(), instances.begin(), instances.end());
  for (const auto &[name, line] : reached)
    if (llvm::none_of(diagnostics.findings(), [&](const Finding &f) {
          return f.severity != Severity::Note && (f.schedule == name || f.schedule.empty());
        }))
      cleanLines.push_back("clean: " + line);
}

static std::string describe(const Setting &setting) {
  std::vector<std::string> parts;
  for (const Definition &definition : setting)
    parts.push_back(definition.name + "=" + sluice::format(definition.value));
  return llvm::join(parts, ", ");
}

/// Every setting; of findings with one rule and place the one at the first setting that has it is kept.
void CheckRun::several(Compilation &compilation, Diagnostics &first) {
  struct Seen {
    Finding finding;
    std::string setting;
    size_t count = 0, last = 0;
  };
  std::map<std::pair<uint32_t, unsigned>, Seen> seen;
  std::map<std::string, size_t> refused, clean;
  size_t failing = 0;
  add(first);
  for (size_t i = 0; i < settings.size(); ++i) {
    Diagnostics diagnostics;
    setSeverities(diagnostics);
    compilation.run(settings[i], options, Compilation::Depth::Expectations, diagnostics,
                    [&](Instance &instance) {
                      if (!diagnostics.hasErrors())
                        ++clean[instance.name];
                    });
    allowed += diagnostics.finish();
    bool fails = false;
    for (const Finding &finding : diagnostics.findings()) {
      // A setting that the file itself rules out is no fault of the schedule.
      if (finding.rule == Rule::RequireFailed) {
        ++refused[finding.schedule];
        continue;
      }
      fails = fails || finding.severity == Severity::Error;
      Seen &entry = seen[{finding.span.begin, static_cast<unsigned>(finding.rule)}];
      if (entry.count == 0) {
        entry.finding = finding;
        entry.setting = describe(settings[i]);
      }
      if (entry.count == 0 || entry.last != i)
        ++entry.count;
      entry.last = i;
    }
    failing += fails;
  }
  for (auto &[key, entry] : seen) {
    size_t count = refused[entry.finding.schedule];
    entry.finding.instance = fmt::format("{} at {} of {}, smallest {}{}",
                                         entry.finding.severity == Severity::Error ? "fails" : "found",
                                         entry.count, settings.size(), entry.setting,
                                         count == 0 ? "" : fmt::format("; {} refused by require", count));
    findings.push_back(entry.finding);
  }
  if (failing > 0)
    return;
  for (const auto &[name, count] : clean) {
    size_t no = refused[name];
    cleanLines.push_back(fmt::format("clean: {} at {} of {} settings{}", name, count, settings.size(),
                                     no == 0 ? "" : fmt::format("; {} refused by require", no)));
    checked.push_back({name, {{"settings", std::to_string(count)}}, options.transport, "early"});
  }
}

ExitCode CheckRun::finish(Severity threshold) {
  llvm::stable_sort(findings, [](const Finding &a, const Finding &b) { return a.span.begin < b.span.begin; });
  FindingCounts counts = countFindings(findings);
  if (format == "json") {
    print(findingsJson(findings, checked, allowed, sources));
  } else {
    print(findingsText(findings, sources, {stdoutHasColors(), 100}));
    for (const std::string &line : cleanLines)
      print(line + "\n");
    if (!findings.empty()) {
      auto plural = [](unsigned count, const char *word) {
        return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
      };
      print(fmt::format("{}, {}, {}{}\n", plural(counts.errors, "error"), plural(counts.warnings, "warning"),
                        plural(counts.notes, "note"), allowed == 0 ? "" : fmt::format(", {} allowed", allowed)));
    }
  }
  bool fails = llvm::any_of(findings, [&](const Finding &f) { return f.severity >= threshold; });
  return fails ? Findings : Clean;
}

/// The schedule files below a folder, in a fixed order.
static std::vector<std::string> schedulesBelow(const std::string &folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (llvm::sys::fs::recursive_directory_iterator entry(folder, error), end; entry != end && !error;
       entry.increment(error))
    if (llvm::sys::path::extension(entry->path()) == ".sluice")
      files.push_back(entry->path());
  llvm::sort(files);
  return files;
}

int runCheck() {
  if (paths.empty())
    return usageError("name a file, a folder or - to check");
  if (format != "text" && format != "json")
    return usageError("--format " + format + ": text or json (sarif, github and junit are not supported yet)");
  std::optional<Severity> threshold;
  for (Severity severity : {Severity::Error, Severity::Warning, Severity::Note})
    if (failOn == name(severity))
      threshold = severity;
  if (!threshold)
    return usageError("--fail-on " + failOn + ": error, warning or note");
  CheckRun run;
  for (const std::string &path : paths) {
    std::vector<std::string> files = {path};
    if (llvm::StringRef(path).ends_with(".csv"))
      return usageError("cannot check " + path + ": CSV files are read through `table from \"...\"` so far");
    if (llvm::sys::fs::is_directory(path))
      files = schedulesBelow(path);
    if (files.empty())
      return usageError("no .sluice file in " + path);
    for (const std::string &file : files)
      if (ExitCode code = run.file(file); code != Clean)
        return code;
  }
  return run.finish(*threshold);
}

} // namespace sluice::tool
