// sluice simulate: timeline and figures, in any of the forms of docs/outputs.md.
#include "Common.h"
#include "Progress.h"
#include "SharedOptions.h"

#include "Emit/Chart.h"
#include "Emit/Comparison.h"
#include "Emit/Dot.h"
#include "Emit/FiguresJson.h"
#include "Emit/Html.h"
#include "Emit/Png.h"
#include "Emit/Svg.h"
#include "Emit/TimelineCsv.h"
#include "Emit/Trace.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace sluice::tool {

namespace cl = llvm::cl;

static cl::list<std::string> paths(cl::Positional, cl::desc("FILE..."), cl::sub(simulateCommand));
static cl::opt<std::string> output("o", cl::desc("Write to a file; its suffix chooses the form"),
                                   cl::value_desc("FILE"), cl::sub(simulateCommand));
static cl::opt<std::string>
    format("format", cl::desc("Form of the output: text, json, svg, html, png, trace, csv, dot"),
           cl::value_desc("NAME"), cl::sub(simulateCommand));
static cl::opt<unsigned> width("width", cl::desc("Columns of the chart (default: the terminal's)"),
                               cl::sub(simulateCommand));
static cl::opt<bool> ascii("ascii", cl::desc("Only ASCII characters in the chart"), cl::sub(simulateCommand));
static cl::opt<std::string> devices("devices", cl::desc("Devices to show, such as 0..4"),
                                    cl::value_desc("A..B"), cl::sub(simulateCommand));
static cl::opt<std::string> from("from", cl::desc("Show the time from here, such as 200ms"),
                                 cl::value_desc("TIME"), cl::sub(simulateCommand));
static cl::opt<std::string> to("to", cl::desc("Show the time up to here"), cl::value_desc("TIME"),
                               cl::sub(simulateCommand));
static cl::opt<bool> transfers("transfers", cl::desc("Pictures: draw what is under way below each device"),
                               cl::sub(simulateCommand));
static cl::opt<bool> critical("critical", cl::desc("Pictures: outline the critical path"),
                              cl::sub(simulateCommand));
static cl::opt<bool> memoryStrip("memory-strip",
                                 cl::desc("Pictures: draw memory over time below each device"),
                                 cl::sub(simulateCommand));
static cl::opt<bool> compare("compare", cl::desc("Text: the figures of several schedules beside each other"),
                             cl::sub(simulateCommand));
static cl::opt<bool> memory("memory",
                            cl::desc("What is live at the peak of every device; in JSON memory over time"),
                            cl::sub(simulateCommand));
static cl::opt<bool> slack("slack", cl::desc("How much later ops could end; in JSON a list of all ops"),
                           cl::sub(simulateCommand));
static cl::opt<bool>
    sensitivity("sensitivity",
                cl::desc("What a stage or link that is 1 % faster saves, also of large schedules"),
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
    text += schedule.program.name + (parameters.empty() ? "" : " at " + parameters) +
            (schedule.file.empty() ? "" : " (" + schedule.file + ")") + "\n\n";
    text += chart(schedule.program, schedule.costs, schedule.timeline, schedule.figures, schedule.part);
    text += schedule.equivalence;
  }
  return text;
}

using Schedules = llvm::ArrayRef<TimedSchedule>;
template <std::string (*make)(Schedules)> static llvm::Expected<std::string> always(Schedules schedules) {
  return make(schedules);
}

/// An output is made whole, or written as it goes.
struct OutputFormat {
  llvm::StringRef name;
  llvm::StringRef suffix; ///< Of files.
  llvm::Expected<std::string> (*whole)(Schedules);
  void (*stream)(Schedules, llvm::raw_ostream &) = nullptr;
  bool isPicture = false; ///< Draws what --transfers, --critical and --memory-strip ask for.
  bool isBinary = false;
};
static constexpr OutputFormat outputs[] = {
    {"text", ".txt", always<textOf>},
    {"json", ".json", always<figuresJson>},
    {"svg", ".svg", always<svg>, nullptr, true},
    {"html", ".html", html, nullptr, true},
    {"png", ".png", png, nullptr, true, true},
    {"trace", ".trace.json", nullptr, writeTrace},
    {"csv", ".csv", nullptr, writeTimelineCsv},
    {"dot", ".dot", dot},
};

static std::string listOf(llvm::StringRef OutputFormat::*column) {
  std::string list;
  for (const OutputFormat &candidate : outputs)
    list += (list.empty() ? "" : ", ") + (candidate.*column).str();
  return list;
}
static const OutputFormat *outputNamed(llvm::StringRef name) {
  const OutputFormat *found =
      llvm::find_if(outputs, [&](const OutputFormat &candidate) { return candidate.name == name; });
  return found == std::end(outputs) ? nullptr : found;
}
/// By the longest suffix that fits; without a suffix text.
static const OutputFormat *outputOfFile(llvm::StringRef file) {
  const OutputFormat *found = nullptr;
  for (const OutputFormat &candidate : outputs)
    if (file.ends_with_insensitive(candidate.suffix) &&
        (!found || found->suffix.size() < candidate.suffix.size()))
      found = &candidate;
  return found || llvm::sys::path::has_extension(file) ? found : outputs;
}

/// What the options ask for; null after a message.
static const OutputFormat *chooseOutput() {
  const OutputFormat *chosen = !format.empty()   ? outputNamed(format)
                               : !output.empty() ? outputOfFile(output)
                                                 : outputs;
  if (!chosen && !format.empty())
    usageError("--format " + format + ": one of " + listOf(&OutputFormat::name));
  else if (!chosen)
    usageError("-o " + output + ": the suffix chooses the form: " + listOf(&OutputFormat::suffix) +
               "; or name it with --format");
  if (!chosen)
    return nullptr;
  for (const auto &[option, name] :
       {std::pair(&transfers, "--transfers"), {&critical, "--critical"}, {&memoryStrip, "--memory-strip"}})
    if (*option && !chosen->isPicture) {
      usageError(std::string(name) + " is for pictures, as -o timeline.svg writes them");
      return nullptr;
    }
  if (compare && chosen != outputs) {
    usageError("--compare is text; " + chosen->name.str() + " has all schedules anyway");
    return nullptr;
  }
  for (const auto &[option, name] :
       {std::pair(&memory, "--memory"), {&slack, "--slack"}, {&sensitivity, "--sensitivity"}})
    if (*option && (compare || (chosen->name != "text" && chosen->name != "json"))) {
      usageError(std::string(name) + " is for text and JSON" + (compare ? ", without --compare" : ""));
      return nullptr;
    }
  if (chosen->isBinary && output.empty() && llvm::sys::Process::StandardOutIsDisplayed()) {
    usageError("a picture is no text for a terminal: write it to a file with -o timeline" +
               chosen->suffix.str());
    return nullptr;
  }
  return chosen;
}

static ExitCode shownPart(const Session &session, const Instance &instance, ChartOptions &part) {
  part.width = width.getNumOccurrences() > 0 ? std::max(40u, width.getValue()) : terminalWidth();
  part.color = output.empty() && stdoutHasColors();
  part.ascii = ascii;
  part.sources = &session.sources;
  part.transfers = transfers;
  part.critical = critical;
  part.memoryStrip = memoryStrip;
  part.memory = memory;
  part.slack = slack;
  if (instance.timed().devices > 32)
    part.maxRows = 32;
  return chartOptions(instance, part);
}

/// What only text and JSON show.
static void addDetailsFor(const OutputFormat &chosen, Instance &instance) {
  if (!instance.figures || compare || (chosen.name != "text" && chosen.name != "json"))
    return;
  const Program &program = instance.timed();
  const bool isShort = sensitivityWork(program, instance.costs) <= shownUnasked;
  addDetails(*instance.figures, program, instance.timedIndex(), instance.costs, *instance.timeline,
             {.links = true, .sensitivity = sensitivity || isShort, .slack = slack});
}

/// Opens every file; Clean, or why the command ends.
static ExitCode openAll(std::vector<std::unique_ptr<Session>> &sessions) {
  std::set<std::string> known;
  for (const std::string &path : paths) {
    sessions.push_back(std::make_unique<Session>());
    if (ExitCode code =
            paths.size() == 1 ? sessions.back()->openSingle(path) : openShared(*sessions.back(), path, known);
        code != Clean)
      return code;
  }
  return paths.size() == 1 ? Clean : checkKnown(known, paths.size());
}

/// To the file of -o, or to stdout.
static ExitCode write(const OutputFormat &chosen, Schedules schedules) {
  if (!chosen.stream) {
    auto text = compare ? comparison(schedules) : chosen.whole(schedules);
    if (!text)
      return usageError(llvm::toString(text.takeError()));
    if (!output.empty())
      return writeFile(output, *text);
    print(*text);
    return Clean;
  }
  if (!output.empty())
    return writeFile(output, [&](llvm::raw_ostream &file) { chosen.stream(schedules, file); });
  chosen.stream(schedules, llvm::outs());
  return Clean;
}

ExitCode runSimulate() {
  if (paths.empty())
    return usageError("name a file to simulate");
  const OutputFormat *chosen = chooseOutput();
  if (!chosen)
    return Usage;
  std::vector<std::unique_ptr<Session>> sessions;
  if (ExitCode code = openAll(sessions); code != Clean)
    return code;

  struct Run {
    const Session *session;
    std::string file; // where there are several
    Instance instance;
    Equivalence equivalence;
  };
  std::vector<Run> runs;
  Progress progress;
  for (const auto &[session, path] : llvm::zip_equal(sessions, paths)) {
    session->options.progress = [&](llvm::StringRef schedule, llvm::StringRef doing) {
      progress.step((doing + " " + schedule).str());
    };
    session->compilation.run(session->settings[0], session->options, Compilation::Depth::Figures,
                             session->diagnostics, [&](Instance &instance) {
                               progress.step("figures of " + instance.name);
                               addDetailsFor(*chosen, instance);
                               Equivalence equivalence = equivalenceOf(instance, session->diagnostics);
                               runs.push_back({session.get(), paths.size() > 1 ? path : "",
                                               std::move(instance), std::move(equivalence)});
                             });
  }
  progress.finish();
  std::vector<TimedSchedule> schedules;
  for (const Run &run : runs) {
    const Instance &instance = run.instance;
    if (!instance.figures)
      continue;
    ChartOptions part;
    if (ExitCode code = shownPart(*run.session, instance, part); code != Clean)
      return code;
    schedules.push_back({instance.timed(), instance.timedIndex(), instance.costs, *instance.timeline,
                         *instance.figures, instance.parameters, part, equivalenceLine(run.equivalence),
                         run.file});
  }
  ExitCode code = Clean;
  for (const auto &session : sessions)
    code = std::max(code, session->finish());
  if (schedules.empty())
    return code; // findings stand in the way
  const ExitCode written = write(*chosen, schedules);
  return written == Clean ? code : written;
}

} // namespace sluice::tool
