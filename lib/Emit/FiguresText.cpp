// The figures below a chart. Every ratio stands with its denominator; what the file leaves out is said.
#include "Emit/Chart.h"

#include "Emit/TextTable.h"
#include "Support/Quantity.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace sluice {

namespace {

std::string list(llvm::ArrayRef<std::string> items) {
  std::string text;
  for (const std::string &item : items)
    text += (text.empty() ? "" : ", ") + item;
  return text;
}

class FiguresBlock {
public:
  FiguresBlock(const Program &program, const CostModel &costs, const Figures &figures,
               const ChartOptions &options)
      : program(program), costs(costs), figures(figures), options(options) {}

  std::string text() {
    out = fmt::format("{}: {}, {}, {} (modeled, not measured)\n", program.name,
                      counted(program.stages, "stage"), counted(program.microbatches, "microbatch"),
                      counted(program.devices, "device"));
    times();
    ratios();
    criticalPath();
    traffic();
    versions();
    closedForms();
    hasDecimals = needsDecimals();
    out += "\n" + deviceTable();
    memoryAtPeak();
    reach();
    return std::move(out);
  }

private:
  static std::string counted(uint64_t count, llvm::StringRef noun) {
    const char *plural = noun.ends_with("ch") ? "es" : "s";
    return fmt::format("{} {}{}", count, noun.str(), count == 1 ? "" : plural);
  }
  void line(llvm::StringRef name, const std::string &value, llvm::StringRef remark = "") {
    const std::string text = fmt::format("  {:<18}{:<24}{}", name.str(), value, remark.str());
    out += llvm::StringRef(text).rtrim().str() + "\n";
  }
  std::string time(const Rational &value) const { return formatUnits(costs, value); }

  void times() {
    line("makespan", time(figures.makespan));
    line("ideal", time(figures.ideal), "mean busy time of a device");
    line("bubble time", time(figures.bubbleTime), "mean idle time of a device");
    if (figures.transferExposed != 0)
      line("transfer exposed", time(figures.transferExposed), "makespan less the one with free transfers");
  }

  void criticalPath() {
    const CriticalSummary &path = figures.critical;
    std::string parts = counted(path.ops, "op") + " of " + time(path.compute);
    if (path.transfer != 0)
      parts += fmt::format(" and transfers of {}", time(path.transfer));
    line("critical path", parts);
  }

  void ratios() {
    auto ratio = [&](const char *name, const std::optional<Rational> &value, const char *denominator) {
      line(name, value ? percentText(*value) : "-", value ? denominator : "no op takes time");
    };
    ratio("idle fraction", figures.idleFraction, "of elapsed: bubble / makespan");
    ratio("overhead ratio", figures.overheadRatio, "of ideal: bubble / ideal");
    ratio("utilization", figures.utilization, "of elapsed: mean useful / makespan");
    ratio("span bubble rate", figures.spanBubbleRate, "of the longest span, first to last op");
  }

  void traffic() {
    if (auto perBase = figures.valueInBaseUnits("throughput"))
      line("throughput", costs.ticks ? fmt::format("{} samples/tick", perBase->decimal(4))
                                     : fmt::format("{:.6g} samples/s", perBase->toDouble() * 1e9));
    std::string moved = fmt::format("{}", figures.transfers);
    if (figures.missingSetting("bytes_moved").empty())
      moved += fmt::format(", {} in all", formatSize(figures.bytesMoved));
    line("transfers", moved);
  }

  /// Of asynchronous schedules: what their stages keep and how old the gradients are.
  void versions() {
    if (!costs.asynchronous)
      return;
    auto most = [&](llvm::ArrayRef<uint32_t> values) {
      const auto *largest = std::max_element(values.begin(), values.end());
      return largest == values.end() ? std::string("-")
                                     : fmt::format("{} on stage {}", *largest, largest - values.begin());
    };
    line("weight versions", most(figures.versions.kept), "most at once");
    line("staleness", most(figures.versions.staleness), "updates, at most");
  }

  /// Every form with its value and what vouches for it: the order of the ops, or who states it.
  void closedForms() {
    const ClosedForms &closed = figures.closed;
    const bool isKnown = closed.overheadRatio.has_value();
    if (isKnown || !closed.stated.empty()) {
      line("closed forms", "equal to the timeline:");
      if (isKnown) {
        const std::string order = fmt::format("{} with P = {}, M = {}, known by its ops", closed.order,
                                              program.stages, program.microbatches);
        form(knownForms[0], percentText(*closed.overheadRatio), order);
        form(knownForms[1], percentText(*closed.idleFraction), "the same");
      }
      for (const StatedForm &stated : closed.stated)
        if (!isKnown || !isOfKnownOrders(stated.formula))
          form(stated.formula, valuesOf(stated), placeOf(stated));
    }
    if (isKnown)
      return;
    if (closed.stated.empty())
      line("closed forms", "do not apply:");
    else
      out += "  those of GPipe and 1F1B do not apply:\n";
    for (const FailedAssumption &failed : closed.failed)
      out += fmt::format("    {}{}\n", failed.message, lineOf(failed.span));
  }
  static constexpr const char *knownForms[] = {"overhead_ratio == (P - 1) / M",
                                               "idle_fraction == (P - 1) / (M + P - 1)"};
  static bool isOfKnownOrders(const std::string &formula) { return llvm::is_contained(knownForms, formula); }
  /// `line 12` of the file itself, `std/zb_h1.sluice:30` of one it imports.
  std::string placeOf(const StatedForm &stated) const {
    return stated.isImported ? fmt::format("{}:{}", stated.file, stated.line)
                             : fmt::format("line {}", stated.line);
  }
  /// In one line where that fits a window, else in two.
  void form(const std::string &formula, const std::string &value, const std::string &source) {
    const bool fits = formula.size() + value.size() + source.size() <= 91;
    out += fmt::format("    {}:{}{} ({})\n", formula, fits ? " " : "\n      ", value, source);
  }
  /// Values of a range beside each other; of many the first ones.
  std::string valuesOf(const StatedForm &stated) const {
    static constexpr size_t most = 8;
    std::vector<std::string> values;
    for (size_t i = 0; i < stated.values.size() && i < most; ++i)
      values.push_back(inItsUnit(stated.figure, stated.values[i]));
    if (stated.values.size() > most)
      values.push_back(fmt::format("... {} in all", stated.values.size()));
    return list(values);
  }
  std::string inItsUnit(const std::string &figure, const Rational &value) const {
    switch (findFigure(figure)->unit) {
    case FigureUnit::Time:
      return costs.ticks ? fmt::format("{} {}", value.str(), value == 1 ? "tick" : "ticks")
                         : formatTime(value);
    case FigureUnit::Size:
      return value.isInteger() ? formatSize(value.num) : value.str() + " B";
    case FigureUnit::Ratio:
      return percentText(value);
    case FigureUnit::Rate:
      return costs.ticks ? value.str() + "/tick" : fmt::format("{:.6g}/s", value.toDouble() * 1e9);
    case FigureUnit::Count:
      break;
    }
    return value.str();
  }
  std::string lineOf(Span span) const {
    return options.sources && span.isValid()
               ? fmt::format(" (line {})", options.sources->locate(span.begin).line)
               : "";
  }

  // One time unit for the whole table, the one the makespan reads best in.
  std::string shortTime(int64_t units) const {
    auto base = inBaseUnits(costs, units);
    auto scaled = !base || costs.ticks ? base : divide(*base, unitNamed(tableUnit())->value);
    if (!scaled)
      return time(units);
    std::string text = scaled->decimal(2);
    if (!hasDecimals || units == 0)
      return text;
    const size_t point = text.find('.');
    if (point == std::string::npos)
      return text + ".00";
    return text + std::string(3 - (text.size() - point), '0');
  }
  /// Whether a time of the table is no whole number of its unit.
  bool needsDecimals() const {
    auto length = costs.ticks ? Rational(1) : unitNamed(tableUnit())->value;
    return llvm::any_of(figures.times, [&](const DeviceTimes &t) {
      return llvm::any_of(partsOf(t), [&](int64_t part) {
        auto base = inBaseUnits(costs, part);
        auto scaled = base ? divide(*base, length) : std::nullopt;
        return scaled && !scaled->isInteger();
      });
    });
  }
  static std::array<int64_t, 7> partsOf(const DeviceTimes &t) {
    return {t.busy, t.idle, t.fill, t.drain, t.stallTransfer, t.imbalance, t.stallUpstream};
  }
  llvm::StringRef tableUnit() const {
    if (costs.ticks)
      return "ticks";
    const std::string makespan = time(figures.makespan);
    for (llvm::StringRef unit : {"ns", "us", "ms"})
      if (llvm::StringRef(makespan).ends_with(" " + unit.str()))
        return unit;
    return "s";
  }

  std::string deviceTable() const {
    const bool hasUseful = llvm::any_of(figures.times, [](auto &t) { return t.useful != t.busy; });
    const bool hasPending = llvm::any_of(figures.memory.devices, [](auto &m) { return m.peakPending != 0; });
    const bool hasBytes = figures.missingSetting("peak_memory").empty();
    TextTable table({"device", "busy"});
    if (hasUseful)
      table.addColumn("useful");
    for (const char *column : {"idle", "fill", "drain", "transfer", "imbalance", "upstream", "peak act."})
      table.addColumn(column);
    if (hasPending)
      table.addColumn("pending");
    if (hasBytes)
      table.addColumn("peak memory");
    for (uint32_t d = options.firstDevice; d < std::min(options.deviceEnd, program.devices); ++d) {
      const DeviceTimes &t = figures.times[d];
      const DeviceMemory &memory = figures.memory.devices[d];
      std::vector<std::string> row{shortTime(t.busy)};
      if (hasUseful)
        row.push_back(shortTime(t.useful));
      for (int64_t part : {t.idle, t.fill, t.drain, t.stallTransfer, t.imbalance, t.stallUpstream})
        row.push_back(shortTime(part));
      row.push_back(std::to_string(memory.peakActivation));
      if (hasPending)
        row.push_back(std::to_string(memory.peakPending));
      if (hasBytes)
        row.push_back(formatSize(memory.peakBytes));
      table.addRow(d, std::move(row));
    }
    return table.text() + sumCheck();
  }

  std::string sumCheck() const {
    const bool holds = llvm::all_of(figures.times, [&](const DeviceTimes &t) {
      return t.busy + t.idle == figures.makespan &&
             t.fill + t.drain + t.stallTransfer + t.imbalance + t.stallUpstream == t.idle;
    });
    return fmt::format("  in {}{}; busy + idle = makespan,\n"
                       "  idle = fill + drain + transfer + imbalance + upstream{}\n",
                       tableUnit().str(), hasDecimals ? ", rounded to 0.01" : "",
                       holds ? ", exactly" : " DO NOT HOLD");
  }

  void memoryAtPeak() {
    if (!figures.missingSetting("peak_memory").empty())
      return;
    uint32_t fullest = 0;
    for (uint32_t d = 1; d < program.devices; ++d)
      if (figures.memory.devices[d].peakBytes > figures.memory.devices[fullest].peakBytes)
        fullest = d;
    const DeviceMemory &memory = figures.memory.devices[fullest];
    out += fmt::format("\n  most memory: {}{} on device {}, first at {}{}\n", formatSize(memory.peakBytes),
                       limitOf(fullest), fullest, time(memory.peakTime),
                       memory.peakOp < program.size() ? " by " + str(program.ops[memory.peakOp]) : "");
    for (const LiveItem &item : memory.livePeak)
      out += fmt::format("    {:>10}  {}{}{}\n", formatSize(item.bytes),
                         item.count > 1 ? fmt::format("{} ", item.count) : "", name(item.kind).str(),
                         item.stage == noStage ? "" : fmt::format(" of stage {}", item.stage));
  }
  std::string limitOf(uint32_t device) const {
    return costs.memoryLimit.empty() ? "" : fmt::format(" of {}", formatSize(costs.memoryLimit[device]));
  }

  /// What the figures leave out and rest on.
  void reach() {
    out += "\n";
    if (costs.isDefault)
      out +=
          "  no model in the file: forward, backward_input and backward_weight take 1 tick each, transfers "
          "none\n";
    if (!costs.notCounted.empty())
      out += fmt::format("  not counted, as the file does not give them: {}\n", list(costs.notCounted));
    for (const auto &[figure, setting] : figures.missing)
      out += fmt::format("  {} needs {}, which the file does not give\n", figure, setting);
  }

  const Program &program;
  const CostModel &costs;
  const Figures &figures;
  const ChartOptions &options;
  std::string out;
  bool hasDecimals = false; ///< The times of the table show hundredths.
};

} // namespace

std::string percentText(const Rational &ratio) {
  auto hundredfold = multiply(ratio, Rational(100));
  std::string text = fmt::format("{} %", hundredfold ? hundredfold->decimal(2) : ratio.decimal(4));
  const std::string exact = ratio.str();
  return ratio.isInteger() || exact.size() > 9 ? text : fmt::format("{} = {}", exact, text);
}

std::string figuresText(const Program &program, const CostModel &costs, const Figures &figures,
                        const ChartOptions &options) {
  return FiguresBlock(program, costs, figures, options).text();
}

} // namespace sluice
