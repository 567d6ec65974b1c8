// sluice: write pipeline schedules, check them, look at their timeline, generate what executes them.
#include "Common.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <exception>

using namespace sluice::tool;
namespace cl = llvm::cl;

namespace sluice::tool {
cl::SubCommand checkCommand("check",
                            "Find what is wrong with schedules\n\n  sluice check pipeline.sluice\n  sluice "
                            "check pipeline.sluice -D P=2..9 -D M=1,7,8\n");
cl::SubCommand simulateCommand("simulate",
                               "Show the timeline and its figures\n\n"
                               "  sluice simulate pipeline.sluice -D M=32              chart and figures\n"
                               "  sluice simulate pipeline.sluice --devices 0..4 --from 0ms --to 200ms\n"
                               "  sluice simulate pipeline.sluice -o figures.json      figures, exact\n"
                               "  sluice simulate pipeline.sluice -o timeline.svg --transfers --critical\n"
                               "  sluice simulate pipeline.sluice -o timeline.trace.json\n"
                               "                                                       for ui.perfetto.dev\n"
                               "  sluice simulate pipeline.sluice -o timeline.csv      a row an op\n"
                               "  sluice simulate pipeline.sluice -o graph.dot         for Graphviz\n");
cl::SubCommand sweepCommand("sweep",
                            "Compare settings: figures of each, and where a change comes from\n\n  "
                            "sluice sweep pipeline.sluice -D M=4,8,16,32 --hold batch\n  sluice sweep "
                            "pipeline.sluice -D P=2..9 -D M=8,16 --hold microbatch_samples --sort "
                            "throughput -o sweep.svg\n");
cl::SubCommand generateCommand("generate", "Write the C++ executor of a schedule\n\n  sluice generate cpp "
                                           "pipeline.sluice --schedule one_f_one_b -o generated\n");
cl::SubCommand dumpCommand("dump", "Print what the compiler sees: ast, ir or sluice\n\n  sluice dump ir "
                                   "pipeline.sluice\n");
cl::SubCommand queueCommand("queue", "Run the queue lab of a file, step by step\n\n  sluice queue "
                                     "queue.sluice\n");
cl::SubCommand explainCommand("explain", "Explain a rule, or list them all\n\n  sluice explain "
                                         "missing-activation\n");
cl::SubCommand importCommand("import", "Read another system's schedule as a schedule file\n\n  sluice "
                                       "import megatron order.txt -o order.sluice\n");
cl::SubCommand diffCommand("diff",
                           "Compare two schedules op by op, and their figures\n\n  sluice diff old.sluice "
                           "new.sluice\n  sluice diff main.csv branch.csv --figures-only --tolerance "
                           "1%\n");
cl::SubCommand compareCommand("compare",
                              "Lay a measured timeline beside the predicted one\n\n  sluice compare "
                              "pipeline.sluice run.trace.json\n  sluice compare pipeline.sluice "
                              "run.trace.json --tolerance 10%\n");
cl::SubCommand calibrateCommand("calibrate",
                                "Write measured times as a profile, for `cost from`\n\n  sluice calibrate "
                                "pipeline.sluice run.trace.json -o profile.json\n  sluice calibrate "
                                "run.trace.json -o profile.json\n");
cl::SubCommand exportCommand("export", "Write a schedule in another system's format\n\n  sluice export json "
                                       "pipeline.sluice -o pipeline.json\n");
cl::SubCommand listCommand("list",
                           "Show the schedules of the library, or one of them\n\n  sluice list zbv -D "
                           "P=8 -D M=32\n");
cl::SubCommand initCommand("init",
                           "Write a file to start from\n\n  sluice init --schedule zbv -o "
                           "pipeline.sluice\n  sluice init --megatron '--pipeline-model-parallel-size 4 "
                           "--num-layers 32 --micro-batch-size 1 --global-batch-size 64'\n");
} // namespace sluice::tool

/// Words of the contract's command line that have no meaning yet.
static bool isLater(llvm::StringRef command) {
  static constexpr llvm::StringRef later[] = {"fmt", "lsp", "completions", "solve"};
  return llvm::is_contained(later, command);
}

static ExitCode dispatch() {
  if (checkCommand)
    return runCheck();
  if (simulateCommand)
    return runSimulate();
  if (sweepCommand)
    return runSweep();
  if (generateCommand)
    return runGenerate();
  if (dumpCommand)
    return runDump();
  if (queueCommand)
    return runQueue();
  if (explainCommand)
    return runExplain();
  if (importCommand)
    return runImport();
  if (exportCommand)
    return runExport();
  if (diffCommand)
    return runDiff();
  if (listCommand)
    return runList();
  if (initCommand)
    return runInit();
  if (compareCommand)
    return runCompare();
  if (calibrateCommand)
    return runCalibrate();
  llvm::outs() << "sluice " SLUICE_VERSION ": pipeline schedules, checked, simulated and executed\n\n"
                  "  sluice list             the schedules of the library\n"
                  "  sluice init             a file to start from\n"
                  "  sluice check FILE       find what is wrong with it; try this first\n"
                  "  sluice simulate FILE    timeline, bubble and memory\n"
                  "  sluice sweep FILE -D M=4,8,16 --hold batch\n"
                  "                          the same figures over many settings\n"
                  "  sluice generate cpp FILE -o DIR\n"
                  "                          the C++ executor\n"
                  "  sluice dump ir FILE     what the compiler sees\n"
                  "  sluice import FORMAT FILE, sluice export FORMAT FILE\n"
                  "                          other systems' formats\n"
                  "  sluice diff OLD NEW     the first op that differs on each device, and the figures\n"
                  "  sluice compare FILE TRACE\n"
                  "                          measured beside predicted\n"
                  "  sluice calibrate FILE TRACE -o PROFILE\n"
                  "                          measured times, for the next prediction\n"
                  "  sluice queue FILE       the queue lab\n"
                  "  sluice explain RULE     what a rule means\n\n"
                  "Each takes --help.\n";
  return Clean;
}

int main(int argc, char **argv) {
  static char name[] = "sluice"; // messages about options show it, whatever the path
  if (argc > 0)
    argv[0] = name;
  cl::SetVersionPrinter([](llvm::raw_ostream &out) { out << "sluice " SLUICE_VERSION "\n"; });
  if (argc > 1 && isLater(argv[1]))
    return usageError(std::string("`sluice ") + argv[1] + "` is not supported yet");
  if (argc > 1 && argv[1][0] != '-' &&
      llvm::none_of(cl::getRegisteredSubcommands(),
                    [&](const cl::SubCommand *c) { return c->getName() == argv[1]; }))
    return usageError(std::string("there is no command \"") + argv[1] +
                      "\": check, simulate, sweep, generate, dump, queue, explain, import, export, diff, "
                      "compare, calibrate, list or init");
  if (!cl::ParseCommandLineOptions(argc, argv, "Pipeline schedules: check, simulate, generate.\n",
                                   &llvm::errs()))
    return Usage;
  if (ExitCode code = checkInput(); code != Clean)
    return code;
  try {
    return finishOutput(dispatch());
  } catch (const std::exception &fault) {
    llvm::errs() << "sluice: this is a fault of the tool itself: " << fault.what() << '\n';
    return Fault;
  }
}
