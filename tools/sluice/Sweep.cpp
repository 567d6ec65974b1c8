// sluice sweep: figures over many settings, under one invariant.
#include "Common.h"
#include "Progress.h"

#include "Driver/FigureSweep.h"
#include "Emit/FindingsText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace sluice::tool {

namespace cl = llvm::cl;

static cl::opt<std::string> path(cl::Positional, cl::desc("FILE"), cl::sub(sweepCommand));
static cl::opt<std::string> held("hold", cl::desc("What stays the same: batch or microbatch_samples"),
                                 cl::value_desc("WHAT"), cl::sub(sweepCommand));
static cl::opt<std::string> output("o", cl::desc("Write to a file; its suffix chooses the format"),
                                   cl::value_desc("FILE"), cl::sub(sweepCommand));
static cl::opt<std::string> format("format", cl::desc("text, csv, json or svg"), cl::sub(sweepCommand));
static cl::list<std::string> figures("figures", cl::CommaSeparated,
                                     cl::desc("More columns: figures such as transfer_exposed, busy(0)"),
                                     cl::value_desc("NAME,..."), cl::sub(sweepCommand));
static cl::opt<std::string> sorted("sort",
                                   cl::desc("Order the rows by a figure: throughput and utilization from "
                                            "the most down, others from the least up; -NAME the other way"),
                                   cl::value_desc("FIGURE"), cl::sub(sweepCommand));
static cl::opt<bool> fits("fits", cl::desc("Only settings that fit into the memory of every device"),
                          cl::sub(sweepCommand));
static cl::opt<unsigned> threads("threads",
                                 cl::desc("Run at most N settings side by side (default: as many as the "
                                          "machine has cores)"),
                                 cl::value_desc("N"), cl::init(0), cl::sub(sweepCommand));

struct SweepFormat {
  llvm::StringRef name; ///< Also the suffix of files.
  std::string (*write)(const SweepTable &);
};
static constexpr SweepFormat formats[] = {
    {"text", sweepText}, {"csv", sweepCsv}, {"json", sweepJson}, {"svg", sweepSvg}};

/// Null, after a message, if there is no such format.
static const SweepFormat *chosenFormat() {
  std::string kind = format;
  if (kind.empty() && !output.empty())
    kind = llvm::sys::path::extension(output).ltrim('.').str(); // none: text
  if (kind.empty() || kind == "txt")
    kind = "text";
  const SweepFormat *found = llvm::find_if(formats, [&](const SweepFormat &f) { return f.name == kind; });
  if (found != std::end(formats))
    return found;
  usageError("the format " + kind + " is none of sweep: text, csv, json or svg");
  return nullptr;
}

/// The command line as it stands, with what is missing.
static std::string completed(const std::string &with) {
  std::string text = "sluice sweep " + path;
  for (const std::string &definition : definitions)
    text += " -D " + (llvm::StringRef(definition).contains(' ') ? "'" + definition + "'" : definition);
  if (!scheduleName.empty())
    text += " --schedule " + scheduleName;
  return text + " " + with;
}

static std::optional<HeldSamples::Of> readHold() {
  if (held == "batch")
    return HeldSamples::Of::Batch;
  if (held == "microbatch_samples")
    return HeldSamples::Of::Microbatch;
  const std::string problem = held.empty() ? "say what the sweep holds" : "--hold " + held;
  usageError(problem +
             ": with `--hold batch` a step keeps its samples, and more microbatches are smaller ones; "
             "with `--hold microbatch_samples` a microbatch keeps its samples, and the batch grows "
             "with their number. Try: " +
             completed("--hold batch"));
  return std::nullopt;
}

static ExitCode readColumns(FigureSweepOptions &how) {
  auto noSuch = [](const char *option, llvm::StringRef name) {
    std::vector<std::string> names;
    for (const FigureInfo &info : allFigures())
      names.push_back(info.name.str());
    return usageError(fmt::format("--{} {}: one of {}; of a device or stage also with its number, as busy(0)",
                                  option, name.str(), llvm::join(names, ", ")));
  };
  for (const std::string &name : figures) {
    auto column = sweepColumn(name);
    if (!column)
      return noSuch("figures", name);
    how.columns.push_back(*column);
  }
  if (sorted.empty())
    return Clean;
  llvm::StringRef name = sorted;
  const bool reversed = name.consume_front("-");
  how.sort = sweepColumn(name);
  if (!how.sort)
    return noSuch("sort", name);
  how.descends = isBetterHigh(*how.sort) != reversed;
  return Clean;
}

/// What can be swept, if nothing is.
static ExitCode nothingToSweep(const Session &session) {
  std::vector<std::string> names = session.compilation.parameterNames(session.options);
  if (names.empty())
    return usageError(path + " has no parameter to sweep: write `param M = 8;` in place of a number");
  return usageError(fmt::format("say what to sweep: {} has {}. Try: {}", path.getValue(),
                                llvm::join(names, ", "),
                                completed(fmt::format("-D {}=4,8,16 --hold batch", names.back()))));
}

static ExitCode write(const SweepTable &table, const SweepFormat &chosen, ExitCode code) {
  const std::string text = chosen.write(table);
  if (output.empty()) {
    print(text);
    return code;
  }
  ExitCode written = writeFile(output, text);
  return written == Clean ? code : written;
}

ExitCode runSweep() {
  if (path.empty())
    return usageError("name a file to sweep");
  const SweepFormat *chosen = chosenFormat();
  if (!chosen)
    return Usage;
  if (threads.getNumOccurrences() > 0 && (threads == 0 || threads > 1024))
    return usageError(fmt::format("--threads {}: a number from 1 to 1024", threads.getValue()));
  FigureSweepOptions how;
  how.fitsOnly = fits;
  how.threads = threads;
  if (ExitCode code = readColumns(how); code != Clean)
    return code;
  Session session;
  if (ExitCode code = session.open(path); code != Clean)
    return code;
  if (session.settings.front().empty())
    return nothingToSweep(session);
  const auto of = readHold();
  if (!of)
    return Usage;
  std::string error;
  auto hold = holdSamples(session.compilation, session.settings, session.options, *of, error);
  if (!hold)
    return usageError(error);

  Progress progress;
  how.progress = [&](size_t done) { progress.count(done, session.settings.size(), "simulated"); };
  FigureSweep found = sweepFigures(session.compilation, session.settings, session.options, *hold, how);
  progress.finish();
  if (fits && found.ran > 0 && !found.knowsFit)
    return usageError("--fits needs `memory` in the cluster and `activation` in the model");
  FindingsTextOptions text;
  text.color = stderrHasColors();
  llvm::errs() << findingsText(found.findings, session.sources, text);
  const bool fails = llvm::any_of(found.findings,
                                  [](const Finding &finding) { return finding.severity == Severity::Error; });
  return write(found.table, *chosen, fails || found.ran == 0 ? Findings : Clean);
}

} // namespace sluice::tool
