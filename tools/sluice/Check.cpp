// sluice check: findings on stdout; the exit code says whether there are any.
#include "CheckRun.h"

#include "Driver/CsvFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <fmt/format.h>

namespace sluice::tool {

namespace cl = llvm::cl;

static cl::list<std::string> paths(cl::Positional, cl::desc("FILE|FOLDER|-..."), cl::sub(checkCommand));
static cl::opt<std::string> format("format", cl::desc("text, json, sarif, github or junit"), cl::init("text"),
                                   cl::sub(checkCommand));
static cl::opt<std::string>
    failOn("fail-on", cl::desc("Least severity that makes the exit code 1: error, warning or note"),
           cl::init("error"), cl::sub(checkCommand));
static cl::list<std::string> deny("deny", cl::desc("Make a rule an error"), cl::value_desc("RULE"),
                                  cl::sub(checkCommand));
static cl::list<std::string> warn("warn", cl::desc("Make a rule a warning"), cl::value_desc("RULE"),
                                  cl::sub(checkCommand));

static cl::opt<bool> closedForms("closed-forms",
                                 cl::desc("Also check what imported files state of their schedules"),
                                 cl::sub(checkCommand));

static cl::opt<unsigned> threads("threads",
                                 cl::desc("Over several settings: run at most N side by side (default: as "
                                          "many as the machine has cores)"),
                                 cl::value_desc("N"), cl::init(0), cl::sub(checkCommand));

static cl::opt<bool> equivalence("equivalence",
                                 cl::desc("Also say whether the step equals unpipelined training, and what "
                                          "that does not promise"),
                                 cl::sub(checkCommand));

/// `--deny` and `--warn` in the order of the command line: of two about one rule the last holds.
static ExitCode readSeverities(std::vector<std::pair<Rule, Severity>> &severities) {
  std::map<unsigned, std::pair<std::string, Severity>> byPosition;
  auto add = [&](const cl::list<std::string> &names, Severity severity) {
    for (unsigned i = 0; i < names.size(); ++i)
      byPosition[names.getPosition(i)] = {names[i], severity};
  };
  add(deny, Severity::Error);
  add(warn, Severity::Warning);
  for (const auto &[position, entry] : byPosition) {
    const RuleInfo *rule = findRule(entry.first);
    if (!rule)
      return usageError("there is no rule \"" + entry.first + "\": `sluice explain` lists them");
    severities.emplace_back(rule->rule, entry.second);
  }
  return Clean;
}

/// The schedule files below a folder, in a fixed order.
static std::vector<std::string> schedulesBelow(const std::string &folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (llvm::sys::fs::recursive_directory_iterator entry(folder, error), end; entry != end && !error;
       entry.increment(error))
    if (llvm::sys::path::extension(entry->path()) == ".sluice" || isCsvFile(entry->path()))
      files.push_back(entry->path());
  llvm::sort(files);
  return files;
}

ExitCode runCheck() {
  if (paths.empty())
    return usageError("name a file, a folder or - to check");
  static constexpr llvm::StringRef forms[] = {"text", "json", "sarif", "github",
                                              "junit"}; // as CheckRun::Form
  const auto *form = llvm::find(forms, llvm::StringRef(format));
  if (form == std::end(forms))
    return usageError("--format " + format + ": text, json, sarif, github or junit");
  std::optional<Severity> threshold;
  for (Severity severity : {Severity::Error, Severity::Warning, Severity::Note})
    if (failOn == name(severity))
      threshold = severity;
  if (!threshold)
    return usageError("--fail-on " + failOn + ": error, warning or note");

  if (threads.getNumOccurrences() > 0 && (threads == 0 || threads > 1024))
    return usageError(fmt::format("--threads {}: a number from 1 to 1024", threads.getValue()));

  CheckRun run;
  run.checkClosedForms(closedForms);
  run.equivalence = equivalence;
  run.threads = threads;
  if (ExitCode code = readSeverities(run.severities); code != Clean)
    return code;
  if (ExitCode code = run.start(); code != Clean)
    return code;
  for (const std::string &path : paths) {
    bool isFolder = llvm::sys::fs::is_directory(path);
    std::vector<std::string> files = isFolder ? schedulesBelow(path) : std::vector<std::string>{path};
    if (files.empty())
      return usageError("no .sluice file and no PyTorch CSV in " + path);
    size_t before = run.schedules;
    for (const std::string &file : files)
      if (ExitCode code = run.file(file, isFolder); code != Clean)
        return code;
    if (isFolder && run.schedules == before && !run.hasFindings())
      return usageError("no file in " + path + " declares a schedule");
    if (isFolder)
      if (ExitCode code = run.finishFolder(path); code != Clean)
        return code;
  }
  return run.finish(*threshold, static_cast<CheckRun::Form>(form - std::begin(forms)));
}

} // namespace sluice::tool
