// sluice export: a schedule in another system's format. What the format cannot say is said on stderr.
#include "Common.h"

#include "Formats/Format.h"
#include "Formats/PytorchCsv.h"
#include "Formats/ScheduleJson.h"
#include "Formats/SettingWords.h"
#include "Support/Words.h"
#include "Verify/Verify.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace sluice::tool {

namespace cl = llvm::cl;

static cl::list<std::string> arguments(cl::Positional, cl::desc("FORMAT FILE"), cl::sub(exportCommand));
static cl::opt<std::string> output("o", cl::desc("Write to a file instead of standard output"),
                                   cl::value_desc("FILE"), cl::sub(exportCommand));

// Of the PyTorch CSV.
static cl::opt<bool> comms("comms",
                           cl::desc("pytorch: compute_comms, with sends and receives, unshards and "
                                    "reductions"),
                           cl::sub(exportCommand));
static cl::opt<CommunicationPlacement> placement(
    "placement", cl::desc("pytorch --comms: where sends and receives stand"),
    cl::values(clEnumValN(CommunicationPlacement::Early, "early", "As PyTorch places them (default)"),
               clEnumValN(CommunicationPlacement::JustInTime, "just_in_time",
                          "Receives right before their consumer, in the order of the sends"),
               clEnumValN(CommunicationPlacement::Deferred, "deferred", "PyTorch's late receives")),
    cl::init(CommunicationPlacement::Early), cl::sub(exportCommand));
static cl::opt<bool> mergeHalvesOption("merge-halves",
                                       cl::desc("pytorch: adjacent halves become one backward"),
                                       cl::sub(exportCommand));
static cl::opt<bool> splitHalvesOption("split-halves",
                                       cl::desc("pytorch: each backward becomes its two halves"),
                                       cl::sub(exportCommand));
static cl::opt<uint32_t> unshard("unshard",
                                 cl::desc("pytorch --comms: stages whose weights are gathered at "
                                          "once (default 3); 0: no UNSHARD and RESHARD"),
                                 cl::value_desc("N"), cl::init(3), cl::sub(exportCommand));
static cl::opt<std::string> torchRelease("torch",
                                         cl::desc("pytorch: the release to load it, 2.6 to 2.14 "
                                                  "(default)"),
                                         cl::value_desc("2.N"), cl::init("2.14"), cl::sub(exportCommand));

/// The options above; `error` says what is wrong with them.
static PytorchOptions pytorchOptions(std::string &error) {
  PytorchOptions options{.communication = comms, .placement = placement, .activeStages = unshard};
  if (mergeHalvesOption && splitHalvesOption)
    error = "--merge-halves or --split-halves, not both";
  else if (mergeHalvesOption)
    options.halves = PytorchOptions::Halves::Merged;
  else if (splitHalvesOption)
    options.halves = PytorchOptions::Halves::Split;
  llvm::StringRef release = torchRelease;
  if (!release.consume_front("2.") || release.getAsInteger(10, options.release) || options.release < 6 ||
      options.release > 14)
    error = "--torch takes 2.6 to 2.14, not " + torchRelease;
  if (!comms && (placement.getNumOccurrences() > 0 || unshard.getNumOccurrences() > 0))
    error = "--placement and --unshard need --comms";
  return options;
}

/// True if an option is given that only the PyTorch CSV knows.
static bool hasPytorchOption() {
  return comms || mergeHalvesOption || splitHalvesOption || placement.getNumOccurrences() > 0 ||
         unshard.getNumOccurrences() > 0 || torchRelease.getNumOccurrences() > 0;
}

std::string formatList(bool read) {
  std::vector<std::string> names;
  for (const Format &format : allFormats())
    if (read ? format.read != nullptr : format.write != nullptr)
      names.push_back(format.name.str());
  return std::string("formats that are ") + (read ? "read" : "written") + ": " + llvm::join(names, ", ");
}

std::string noSuchFormat(llvm::StringRef name, bool read) {
  if (read && name == "pytorch")
    return "a PyTorch CSV is a schedule file as it stands, if its name ends in .csv: sluice check order.csv; "
           "sluice dump sluice order.csv prints it in the language";
  std::vector<llvm::StringRef> names;
  for (const Format &format : allFormats())
    if (read ? format.read != nullptr : format.write != nullptr)
      names.push_back(format.name);
  llvm::StringRef near = nearest(name, names);
  std::string what = (findFormat(name) ? "the format " + name + " is not " + (read ? "read" : "written")
                                       : "there is no format \"" + name + "\"")
                         .str();
  return near.empty() ? what + "; " + formatList(read) : what + ": " + near.str() + "?";
}

void printLost(llvm::ArrayRef<std::string> lost) {
  for (const std::string &line : lost)
    llvm::errs() << "sluice: lost: " << line << '\n';
}

/// What rows of cells leave out in every format: buffers, and where stages stand that no cell names.
static void sayLostByRows(const FormattedSchedule &schedule, std::vector<std::string> &lost) {
  const Program &program = schedule.program;
  std::vector<bool> isNamed(program.stages);
  for (const Op &op : program.ops)
    if (op.isUseful())
      isNamed[op.stage] = true;
  std::vector<uint32_t> unnamed;
  for (uint32_t s = 0; s < program.stages; ++s)
    if (!isNamed[s])
      unnamed.push_back(s);
  if (!program.buffers.empty())
    lost.push_back("declared buffers");
  if (!program.ties.empty())
    lost.push_back(counted(program.ties.size(), "tied weight", "tied weights") +
                   ": the model that runs the order has to share and reduce them");
  if (program.isEvaluation)
    lost.push_back("phase = evaluation: rows of forwards are read as a training step without backwards");
  for (const SettingWords &setting : trainingWords())
    if (setting.isSaid(schedule.costs))
      lost.push_back(setting.name.str() + " = " + setting.wordOf(schedule.costs).str() +
                     ": the training script says it");
  if (!unnamed.empty())
    lost.push_back(listed("stage", "stages", unnamed) + (unnamed.size() == 1
                                                             ? " and its place: no cell names it"
                                                             : " and their places: no cell names them"));
}

ExitCode runExport() {
  if (arguments.empty())
    return usageError("sluice export FORMAT FILE [-o FILE]; " + formatList(/*read=*/false));
  const Format *format = findFormat(arguments[0]);
  if (!format || !format->write)
    return usageError(noSuchFormat(arguments[0], /*read=*/false));
  if (arguments.size() != 2)
    return usageError("name one file to export");
  const bool isPytorch = format->write == writePytorch;
  std::string error;
  PytorchOptions options = pytorchOptions(error);
  if (!isPytorch && hasPytorchOption())
    error =
        "--comms, --placement, --unshard, --torch, --merge-halves and --split-halves are for pytorch, not " +
        format->name.str();
  if (!error.empty())
    return usageError(error);
  Session session;
  if (ExitCode code = session.openSingle(arguments[1]); code != Clean)
    return code;
  std::vector<std::string> names = session.compilation.schedules(session.options, session.settings[0]);
  if (names.size() != 1)
    return usageError("the file has several schedules; choose one with --schedule: " +
                      llvm::join(names, ", "));
  std::optional<FormattedSchedule> schedule;
  size_t expectations = 0;
  bool isClean = true;
  session.compilation.run(
      session.settings[0], session.options, Compilation::Depth::Elaborate, session.diagnostics,
      [&](Instance &instance) {
        std::string parameters = instance.parameterText();
        std::string source = session.compilation.source();
        expectations = expectationCount(session.compilation.checked(), instance);
        Diagnostics findings; // not its own: they are those of check
        isClean = verify(instance.program, ProgramIndex(instance.program), instance.costs, findings).clean;
        if (source.empty())
          source = instance.name + (parameters.empty() ? "" : " at " + parameters);
        schedule = {std::move(instance.program), std::move(instance.costs), source};
      });
  ExitCode code = session.finish();
  if (!schedule || code != Clean)
    return code;
  std::vector<std::string> lost;
  auto text =
      isPytorch ? writePytorchCsv(*schedule, options, lost, error) : format->write(*schedule, lost, error);
  if (!text) {
    llvm::errs() << "sluice: error: " << format->name << " cannot say this schedule: " << error << '\n';
    return Findings;
  }
  if (!isClean)
    llvm::errs() << "sluice: warning: the schedule has errors, and is exported with them: sluice check "
                 << arguments[1] << '\n';
  if (format->write != writeJson)
    sayLostByRows(*schedule, lost);
  if (expectations > 0)
    lost.push_back(counted(expectations, "expectation", "expectations") +
                   ": they stay with the schedule file");
  printLost(lost);
  if (!output.empty())
    return writeFile(output, *text);
  print(*text);
  return Clean;
}

} // namespace sluice::tool
