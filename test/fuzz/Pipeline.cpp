#include "Pipeline.h"

#include "Driver/Compilation.h"
#include "Driver/CsvFile.h"
#include "Driver/Queue.h"
#include "Emit/Chart.h"
#include "Emit/Cpp.h"
#include "Emit/Dot.h"
#include "Emit/FiguresJson.h"
#include "Emit/FindingsJson.h"
#include "Emit/FindingsText.h"
#include "Emit/Svg.h"
#include "Emit/TimelineCsv.h"
#include "Emit/Trace.h"
#include "Formats/PytorchCsv.h"
#include "IR/Print.h"
#include "Passes/AssignSlots.h"

#include <cstdio>
#include <cstdlib>

namespace sluice::fuzz {

namespace {

/// Small enough that a run takes milliseconds, large enough for every example.
constexpr uint64_t maxOps = 2000;

class LibraryOnly : public FileLoader {
public:
  LibraryOnly(SourceManager &sources, llvm::StringRef csv)
      : FileLoader(sources), sources(sources), csv(csv) {}

  Result read(llvm::StringRef path, llvm::StringRef from) override {
    if (path.starts_with("std/"))
      return FileLoader::read(path, from);
    if (!path.ends_with(".csv"))
      return {{}, "there is no disk here"};
    auto span = sources.addFile(path.str(), csv.str());
    return span ? Result{*span, ""} : Result{{}, "the files are too large"};
  }

private:
  SourceManager &sources;
  llvm::StringRef csv;
};

/// A text with what compiles it; the order of the members is the order they need each other in.
struct Run {
  Run(llvm::StringRef text, llvm::StringRef csv) : loader(sources, csv), compilation(sources, loader) {
    auto span = sources.addFile("input.sluice", text.str());
    loaded = span && compilation.load(*span, diagnostics);
    options.elaborate.maxOps = maxOps;
  }

  SourceManager sources;
  LibraryOnly loader;
  Diagnostics diagnostics;
  Compilation compilation;
  CompileOptions options;
  bool loaded = false;
};

} // namespace

void demand(bool holds, const char *invariant) {
  if (holds)
    return;
  std::fprintf(stderr, "broken invariant: %s\n", invariant);
  std::abort();
}

/// The text of an elaborated program makes an equal program again. Only a table can speak of a device that
/// holds no stage, so such a program (802) has no text.
static void roundTrip(const Program &program) {
  for (uint32_t device = 0; device < program.devices; ++device)
    if (program.stagesOn(device).empty())
      return;
  Run run(printSluice(program), "");
  demand(run.loaded, "`dump sluice` gives a file without errors");
  unsigned count = 0;
  run.compilation.run({}, run.options, Compilation::Depth::Elaborate, run.diagnostics, [&](Instance &again) {
    ++count;
    demand(equal(program, again.program), "`dump sluice` gives the same ops");
  });
  demand(count == 1, "`dump sluice` gives one schedule");
}

/// What a CSV keeps of a device.
static std::vector<std::string> computation(const Program &program, uint32_t device) {
  std::vector<std::string> result;
  for (const Op &op : program.opsOf(device))
    if (op.isUseful())
      result.push_back(str(Op{op.kind, 0, op.stage, op.microbatch}));
  return result;
}

/// `export pytorch` takes whatever order there is; a clean one is read from its CSVs as it was.
static void exportPytorch(const Instance &instance) {
  const FormattedSchedule schedule{instance.program, instance.costs, {}};
  using enum CommunicationPlacement;
  const PytorchOptions variants[] = {{},
                                     {.communication = true, .placement = Early},
                                     {.communication = true, .placement = JustInTime},
                                     {.communication = true, .placement = Deferred}};
  for (const PytorchOptions &options : variants) {
    std::vector<std::string> lost;
    std::string error;
    auto text = writePytorchCsv(schedule, options, lost, error);
    demand(text.has_value() == error.empty(), "what has no CSV has a reason");
    if (!text || !instance.verdict.clean)
      continue;
    Run run(scheduleOfCsv("written.csv"), *text);
    run.options.elaborate.maxOps = 10 * maxOps; // with communication
    unsigned count = 0;
    run.compilation.run(
        {}, run.options, Compilation::Depth::Elaborate, run.diagnostics, [&](Instance &again) {
          ++count;
          demand(again.program.devices == instance.program.devices, "a CSV keeps the devices");
          for (uint32_t d = 0; d < again.program.devices; ++d)
            demand(computation(again.program, d) == computation(instance.program, d),
                   "a CSV keeps the order");
        });
    demand(count == 1, "a CSV of a clean schedule gives one schedule");
  }
}

static void look(const Instance &instance, const SourceManager &sources) {
  roundTrip(instance.program);
  exportPytorch(instance);
  printIr(instance.program, *instance.index, &sources);
  reach(instance);
  demand(instance.verdict.complete || !instance.verdict.clean, "a clean program runs to its end");
  if (instance.verdict.clean && unknownToExecutors(instance.program, instance.costs).empty())
    demand(!emitCpp(instance.program, instance.costs, {}).empty(),
           "a clean program that executors know has one");
  if (!instance.figures)
    return;
  chart(instance.program, instance.costs, *instance.timeline, *instance.figures);
  TimedSchedule timed{instance.timed(),   instance.timedIndex(), instance.costs,
                      *instance.timeline, *instance.figures,     instance.parameters};
  timed.part.transfers = timed.part.critical = timed.part.memoryStrip = true;
  timed.part.sources = &sources;
  figuresJson(timed);
  svg(timed);
  llvm::consumeError(dot(timed).takeError());
  writeTrace(timed, llvm::nulls());
  writeTimelineCsv(timed, llvm::nulls());
  for (const DeviceTimes &times : instance.figures->times)
    demand(times.fill + times.drain + times.stallTransfer + times.imbalance + times.stallUpstream +
                   times.busy ==
               instance.figures->makespan,
           "busy and the parts of idle add up to the makespan");
}

void runPipeline(llvm::StringRef text, llvm::StringRef csv) {
  Run run(text, csv);
  if (run.loaded) {
    run.compilation.run({}, run.options, Compilation::Depth::Figures, run.diagnostics,
                        [&](Instance &instance) { look(instance, run.sources); });
    run.compilation.runQueues({}, run.diagnostics, [&](const CheckedBlock &queue, Evaluator &evaluator) {
      if (auto result = runQueue(queue, evaluator, 100))
        queueText(*result);
    });
  } else {
    demand(run.diagnostics.hasErrors(), "a file that cannot be loaded has an error");
  }
  run.diagnostics.finish();
  findingsText(run.diagnostics.findings(), run.sources);
  findingsJson(run.diagnostics.findings(), {}, {}, 0, run.sources);
}

} // namespace sluice::fuzz
