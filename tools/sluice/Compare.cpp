// sluice compare: a measured timeline laid beside the predicted one.
#include "Measured.h"

#include "Measured/Comparing.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice::tool {

namespace cl = llvm::cl;

static cl::list<std::string> paths(cl::Positional, cl::desc("FILE TRACE..."), cl::sub(compareCommand));
static cl::opt<std::string> step("step",
                                 cl::desc("The step to look at (default: the median of all but the first)"),
                                 cl::value_desc("N"), cl::sub(compareCommand));
static cl::opt<unsigned> replica("replica", cl::desc("The replica to look at (default 0)"),
                                 cl::value_desc("N"), cl::sub(compareCommand));
static cl::opt<std::string> tolerance("tolerance",
                                      cl::desc("Exit 1 if the makespan is off by more than this part of the "
                                               "predicted one: 10%"),
                                      cl::value_desc("PART"), cl::sub(compareCommand));
static cl::opt<unsigned> worst("worst", cl::desc("How many of the ops that are most off to show (default 5)"),
                               cl::value_desc("N"), cl::init(5), cl::sub(compareCommand));
static cl::opt<std::string> format("format", cl::desc("text or json"), cl::init("text"),
                                   cl::sub(compareCommand));
static cl::opt<std::string> output("o", cl::desc("Write to a file"), cl::value_desc("FILE"),
                                   cl::sub(compareCommand));

ExitCode runCompare() {
  if (paths.size() < 2)
    return usageError("sluice compare FILE TRACE...");
  if (format != "text" && format != "json")
    return usageError("--format " + format + ": text or json");
  CompareOptions options;
  options.offenders = worst;
  uint64_t number = 0;
  if (!step.empty()) {
    if (llvm::StringRef(step).getAsInteger(10, number))
      return usageError("--step " + step + ": the number of a step");
    options.step = number;
  }
  std::optional<Rational> part;
  if (!tolerance.empty() && !(part = partOf(tolerance)))
    return usageError("--tolerance " + tolerance + ": a part such as 10%");

  Session session;
  if (isTraceFile(session, paths[0]))
    return usageError(paths[0] + " is a trace: name the schedule file before it");
  if (ExitCode code = session.openSingle(paths[0]); code != Clean)
    return code;
  Trace trace;
  CompareCaption caption;
  caption.files.assign(paths.begin() + 1, paths.end());
  if (ExitCode code = readTraces(session, caption.files, trace, caption.notes); code != Clean)
    return code;
  std::optional<Instance> instance;
  if (ExitCode code = compileTraced(session, trace, Compilation::Depth::Figures, instance); code != Clean)
    return code;
  if (!instance->timeline || !instance->figures)
    return usageError(instance->name + " does not run to its end, so nothing is predicted of it");
  const auto process = processOf(trace, instance->name, replica);
  if (!process)
    return Usage;

  auto measurement =
      measure(instance->timed(), instance->timedIndex(), instance->costs, trace, *process, session.sources);
  if (!measurement)
    return usageError(measurement.takeError());
  auto comparing = layBeside(*measurement, *instance->figures, options);
  if (!comparing)
    return usageError(comparing.takeError());
  const std::string parameters = instance->parameterText();
  caption.title = instance->name + (parameters.empty() ? "" : " at " + parameters);
  caption.parameters = instance->parameters;
  caption.replica = trace.isModeled ? 0 : *process;
  const std::string text = format == "json" ? comparingJson(*comparing, caption, session.sources)
                                            : comparingText(*comparing, caption, session.sources);
  if (output.empty())
    print(text);
  else if (ExitCode code = writeFile(output, text); code != Clean)
    return code;

  const auto relative = comparing->relative();
  const bool isOff = part && (!relative || relative->num < 0 ? !relative || *multiply(*relative, -1) > *part
                                                             : *relative > *part);
  return isOff ? Findings : Clean;
}

} // namespace sluice::tool
