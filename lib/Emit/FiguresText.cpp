// The figures below a chart. Every ratio stands with its denominator; what the file leaves out is said.
#include "Emit/Chart.h"

#include "Emit/FiguresLines.h"
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
    lines("critical path", pathRows(costs, figures));
    lines("if 1 % faster", sensitivityRows(program, costs, figures));
    traffic();
    versions();
    out += closedFormsText(program, costs, figures, options);
    hasDecimals = needsDecimals();
    out += "\n" + deviceTable() + busyTable();
    out += memoryText(program, costs, figures, options);
    if (options.slack)
      out += "\n" + slackText(program, costs, figures, options);
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

  /// A line of several rows, the first behind `name`.
  void lines(llvm::StringRef name, llvm::ArrayRef<std::string> rows) {
    for (const std::string &row : rows) {
      out += fmt::format("  {:<18}{}\n", name.str(), row);
      name = "";
    }
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
    steadyState();
    std::string moved = fmt::format("{}", figures.transfers);
    if (figures.missingSetting("bytes_moved").empty())
      moved += fmt::format(", {} in all", formatSize(figures.bytesMoved));
    line("transfers", moved);
    out += linkLines(costs, figures);
    if (figures.bytesOffloaded != 0)
      line("offloaded", formatSize(figures.bytesOffloaded));
  }

  /// Where it lasts long enough to say more than the whole step does.
  void steadyState() {
    constexpr uint64_t leastBlocks = 8;
    if (!figures.steadyPeriod || figures.steadyBlocks < leastBlocks)
      return;
    const Rational count = *figures.steadyMicrobatches;
    std::string text = fmt::format("{} a microbatch", time(*divide(*figures.steadyPeriod, count)));
    if (count != 1)
      text += fmt::format(": {} in {}", counted(static_cast<uint64_t>(count.num), "microbatch"),
                          time(*figures.steadyPeriod));
    if (auto perBase = figures.valueInBaseUnits("steady_throughput"))
      text += costs.ticks ? fmt::format(", {} samples/tick", perBase->decimal(4))
                          : fmt::format(", {:.6g} samples/s", perBase->toDouble() * 1e9);
    line("steady state", text);
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
    auto hasFraction = [&](int64_t part) {
      auto base = inBaseUnits(costs, part);
      auto scaled = base ? divide(*base, length) : std::nullopt;
      return scaled && !scaled->isInteger();
    };
    return llvm::any_of(figures.times,
                        [&](const DeviceTimes &t) { return llvm::any_of(partsOf(t), hasFraction); });
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

  /// What devices are busy with, where that is more than compute.
  std::string busyTable() const {
    static constexpr std::pair<const char *, int64_t BusyParts::*> parts[] = {
        {"compute", &BusyParts::compute},     {"recompute", &BusyParts::recompute},
        {"update", &BusyParts::update},       {"collectives", &BusyParts::collectives},
        {"transfers", &BusyParts::transfers}, {"host", &BusyParts::host}};
    auto isUsed = [&](int64_t BusyParts::*part) {
      return llvm::any_of(figures.busy, [&](const BusyParts &busy) { return busy.*part != 0; });
    };
    if (llvm::none_of(llvm::drop_begin(parts, 2), [&](const auto &part) { return isUsed(part.second); }))
      return "";
    TextTable table({"device", "busy"});
    std::string sum;
    for (const auto &[name, part] : parts)
      if (isUsed(part)) {
        table.addColumn(name);
        sum += (sum.empty() ? "" : " + ") + std::string(name);
      }
    for (uint32_t d = options.firstDevice; d < std::min(options.deviceEnd, program.devices); ++d) {
      std::vector<std::string> row{shortTime(figures.times[d].busy)};
      for (const auto &[name, part] : parts)
        if (isUsed(part))
          row.push_back(shortTime(figures.busy[d].*part));
      table.addRow(d, std::move(row));
    }
    const bool holds = llvm::all_of(llvm::zip_equal(figures.times, figures.busy), [](const auto &device) {
      return std::get<0>(device).busy == std::get<1>(device).sum();
    });
    return fmt::format("\n{}  busy = {}{}\n", table.text(), sum, holds ? ", exactly" : " DOES NOT HOLD");
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
      if (figure != "sensitivity" && figure != "headroom" && !llvm::StringRef(figure).starts_with("steady_"))
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
