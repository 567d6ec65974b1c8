// sluice simulate: timeline and figures.
#include "Common.h"
#include "Progress.h"

#include "Emit/Chart.h"
#include "Emit/FiguresJson.h"
#include "Emit/Svg.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

#include <fmt/format.h>

namespace sluice::tool {

namespace cl = llvm::cl;

static cl::opt<std::string> path(cl::Positional, cl::desc("FILE"), cl::sub(simulateCommand));
static cl::opt<std::string> output("o", cl::desc("Write to a file; its suffix chooses the format"),
                                   cl::value_desc("FILE"), cl::sub(simulateCommand));
static cl::opt<std::string> format("format", cl::desc("text, svg or json"), cl::sub(simulateCommand));
static cl::opt<unsigned> width("width", cl::desc("Columns of the chart (default: the terminal's)"),
                               cl::sub(simulateCommand));
static cl::opt<bool> ascii("ascii", cl::desc("Only ASCII characters"), cl::sub(simulateCommand));
static cl::opt<std::string> devices("devices", cl::desc("Devices to show, such as 0..4"),
                                    cl::value_desc("A..B"), cl::sub(simulateCommand));
static cl::opt<std::string> from("from", cl::desc("Show the time from here, such as 200ms"),
                                 cl::value_desc("TIME"), cl::sub(simulateCommand));
static cl::opt<std::string> to("to", cl::desc("Show the time up to here"), cl::value_desc("TIME"),
                               cl::sub(simulateCommand));

/// A time of the command line in CostModel::unit; nothing if it is none.
static std::optional<int64_t> timeOption(const std::string &text, const CostModel &costs) {
  llvm::StringRef number = text;
  llvm::StringRef digits = number.take_while([](char c) { return llvm::isDigit(c); });
  llvm::StringRef unit = number.drop_front(digits.size()).trim();
  int64_t value;
  if (digits.getAsInteger(10, value))
    return std::nullopt;
  std::optional<Rational> time = Rational(value);
  if (!costs.ticks) {
    auto one = unitNamed(unit);
    if (!one || one->dimension != timeDimension)
      return std::nullopt;
    time = multiply(*time, one->value);
  } else if (!unit.empty()) {
    return std::nullopt;
  }
  time = time ? divide(*time, costs.unit) : std::nullopt;
  return time ? std::optional(time->floor()) : std::nullopt;
}

static ExitCode chartOptions(const Instance &instance, ChartOptions &options) {
  if (!devices.empty()) {
    auto [first, last] = llvm::StringRef(devices).split("..");
    if (first.getAsInteger(10, options.firstDevice) || last.getAsInteger(10, options.deviceEnd) ||
        options.firstDevice >= options.deviceEnd || options.firstDevice >= instance.program.devices)
      return usageError("--devices " + devices + ": a range such as 0.." +
                        std::to_string(instance.program.devices) + ", its end not included");
  }
  for (auto [text, time, name] : {std::tuple(&from, &options.from, "--from"), {&to, &options.to, "--to"}})
    if (!text->empty() && !(*time = timeOption(*text, instance.costs)))
      return usageError(std::string(name) + " " + *text + ": a " +
                        (instance.costs.ticks ? "number of ticks" : "time such as 200ms"));
  if (options.from && options.to && *options.from >= *options.to)
    return usageError("--from is not before --to");
  return Clean;
}

/// The verdict in short; `check --equivalence` says all of it.
static std::string equivalenceLine(const Equivalence &verdict) {
  const bool holds = verdict.holds == Equivalence::Holds::Yes;
  return fmt::format("  equivalence: {} unpipelined training{}\n",
                     holds                                     ? "the step equals"
                     : verdict.holds == Equivalence::Holds::No ? "the step does not equal"
                                                               : "not decided whether the step equals",
                     holds ? "; check --equivalence says what that leaves out" : ": " + verdict.reason);
}

/// What the terminal and text files show of several schedules: one below the other.
static std::string textOf(llvm::ArrayRef<TimedSchedule> schedules) {
  std::string text;
  for (const TimedSchedule &schedule : schedules) {
    const std::string parameters = schedule.parameterText();
    text += text.empty() ? "" : "\n";
    text += schedule.program.name + (parameters.empty() ? "" : " at " + parameters) + "\n\n";
    text += chart(schedule.program, schedule.costs, schedule.timeline, schedule.figures, schedule.part);
    text += schedule.equivalence;
  }
  return text;
}

struct OutputFormat {
  llvm::StringRef name; ///< Also the suffix of files.
  std::string (*write)(llvm::ArrayRef<TimedSchedule>);
};
static constexpr OutputFormat outputs[] = {
    {"text", textOf},
    {"svg", svg},
    {"json", figuresJson},
};

static const OutputFormat *outputNamed(llvm::StringRef name) {
  const OutputFormat *found =
      llvm::find_if(outputs, [&](const OutputFormat &candidate) { return candidate.name == name; });
  return found == std::end(outputs) ? nullptr : found;
}

static ExitCode shownPart(const Session &session, const Instance &instance, ChartOptions &part) {
  part.width = width.getNumOccurrences() > 0 ? std::max(40u, width.getValue()) : terminalWidth();
  part.color = output.empty() && stdoutHasColors();
  part.ascii = ascii;
  part.sources = &session.sources;
  if (instance.program.devices > 32)
    part.maxRows = 32;
  return chartOptions(instance, part);
}

ExitCode runSimulate() {
  if (path.empty())
    return usageError("name a file to simulate");
  std::string kind = format;
  if (kind.empty() && !output.empty())
    kind = llvm::sys::path::extension(output).ltrim('.').str(); // none: text
  if (kind.empty() || kind == "txt")
    kind = "text";
  const OutputFormat *chosen = outputNamed(kind);
  if (!chosen)
    return usageError("the format " + kind + " is not supported yet: text, svg or json");
  Session session;
  if (ExitCode code = session.openSingle(path); code != Clean)
    return code;

  std::vector<Instance> instances;
  std::vector<Equivalence> equivalences; // of each instance
  Progress progress;
  session.options.progress = [&](llvm::StringRef schedule, llvm::StringRef doing) {
    progress.step((doing + " " + schedule).str());
  };
  session.compilation.run(session.settings[0], session.options, Compilation::Depth::Figures,
                          session.diagnostics, [&](Instance &instance) {
                            equivalences.push_back(equivalenceOf(instance, session.diagnostics));
                            instances.push_back(std::move(instance));
                          });
  progress.finish();
  std::vector<TimedSchedule> schedules;
  for (const auto &[instance, equivalence] : llvm::zip_equal(instances, equivalences)) {
    if (!instance.figures)
      continue;
    ChartOptions part;
    if (ExitCode code = shownPart(session, instance, part); code != Clean)
      return code;
    schedules.push_back({instance.timed(), instance.timedIndex(), instance.costs, *instance.timeline,
                         *instance.figures, instance.parameters, part, equivalenceLine(equivalence)});
  }
  const std::string text = schedules.empty() ? "" : chosen->write(schedules);
  ExitCode code = session.finish();
  if (text.empty())
    return code; // findings stand in the way
  if (output.empty()) {
    print(text);
    return code;
  }
  ExitCode written = writeFile(output, text);
  return written == Clean ? code : written;
}

} // namespace sluice::tool
