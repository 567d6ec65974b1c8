// sluice calibrate: the measured times of a trace as a profile, for `cost from`.
#include "Measured.h"

#include "Measured/Calibration.h"

#include "llvm/Support/raw_ostream.h"

namespace sluice::tool {

namespace cl = llvm::cl;

static cl::list<std::string> paths(cl::Positional, cl::desc("[FILE] TRACE..."), cl::sub(calibrateCommand));
static cl::opt<std::string> output("o", cl::desc("Write the profile to a file (default: to the output)"),
                                   cl::value_desc("FILE"), cl::sub(calibrateCommand));
static cl::opt<unsigned> replica("replica", cl::desc("The replica whose messages to look at (default 0)"),
                                 cl::value_desc("N"), cl::sub(calibrateCommand));

/// Costs of one unit a nanosecond, whatever the model says: only when things ran counts, not what they should
/// take.
static CostModel inNanoseconds(const Program &program, const CostModel &costs) {
  CostModel plain = CostModel::ofTicks(program.stages);
  plain.ticks = false;
  plain.boundary = costs.boundary;
  plain.channels = costs.channels;
  return plain;
}

ExitCode runCalibrate() {
  if (paths.empty())
    return usageError("sluice calibrate [FILE] TRACE...");
  Session session;
  std::vector<std::string> traces(paths.begin(), paths.end());
  const bool hasFile = !isTraceFile(session, traces.front());
  if (hasFile) {
    if (ExitCode code = session.openSingle(traces.front()); code != Clean)
      return code;
    traces.erase(traces.begin());
    if (traces.empty())
      return usageError("sluice calibrate [FILE] TRACE...: " + paths[0] +
                        " is no trace, and no other is named");
  } else if (!scheduleName.empty() || !definitions.empty()) {
    return usageError("--schedule and -D are of a schedule file: name it before the trace");
  }
  Trace trace;
  std::vector<std::string> notes;
  if (ExitCode code = readTraces(session, traces, trace, notes); code != Clean)
    return code;
  if (trace.isModeled)
    notes.push_back("the trace is a prediction: these are the times of its model, nothing was measured");

  std::string links;
  std::vector<int64_t> samples;
  uint32_t splits = 1;
  if (hasFile) {
    std::optional<Instance> instance;
    if (ExitCode code = compileTraced(session, trace, Compilation::Depth::Verify, instance); code != Clean)
      return code;
    const auto process = processOf(trace, instance->name, replica);
    if (!process)
      return Usage;
    samples = instance->costs.samples;
    splits = instance->program.sequenceSplits;
    if (!trace.ticks) {
      auto measurement =
          measure(instance->program, *instance->index, inNanoseconds(instance->program, instance->costs),
                  trace, *process, session.sources);
      if (!measurement)
        return usageError(measurement.takeError());
      links = linksText(*measurement);
    }
  }
  auto calibration = calibrate(trace, samples, splits);
  if (!calibration)
    return usageError(calibration.takeError());
  std::string text = calibrationText(*calibration) + links;
  for (const std::string &note : notes)
    text += "\n  note: " + note + "\n";
  const std::string profile = profileText(*calibration);
  if (output.empty()) {
    llvm::errs() << text;
    print(profile);
    return Clean;
  }
  if (ExitCode code = writeFile(output, profile); code != Clean)
    return code;
  print(text + "\n  " + output +
        ": name it with `cost from` in the model, in place of the costs that it gives\n");
  return Clean;
}

} // namespace sluice::tool
