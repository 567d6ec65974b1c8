#include "Emit/Comparison.h"

#include "Emit/Columns.h"
#include "Support/Quantity.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

namespace {

enum class Better : uint8_t { Neither, Less, More };

struct RowInfo {
  const char *label; ///< With what the figure is a part of, or the most over what.
  const char *figure;
  Better better;
  bool needsSameWork = false; ///< Else its best would only be the schedule that does least.
};
constexpr RowInfo rowInfos[] = {
    {"makespan", "makespan", Better::Less, true},
    {"ideal (mean busy)", "ideal", Better::Neither},
    {"bubble time (mean idle)", "bubble_time", Better::Less, true},
    {"idle fraction (of makespan)", "idle_fraction", Better::Less},
    {"overhead ratio (of ideal)", "overhead_ratio", Better::Less},
    {"utilization (of makespan)", "utilization", Better::More},
    {"span bubble rate (of longest span)", "span_bubble_rate", Better::Less},
    {"throughput (samples)", "throughput", Better::More},
    {"transfer exposed", "transfer_exposed", Better::Less, true},
    {"transfers", "transfers", Better::Less, true},
    {"bytes moved", "bytes_moved", Better::Less, true},
    {"bytes offloaded", "bytes_offloaded", Better::Less, true},
    {"peak activations (most of a device)", "peak_activation", Better::Less},
    {"peak memory (most of a device)", "peak_memory", Better::Less},
    {"headroom (least of a device)", "headroom", Better::More},
    {"staleness (most of a stage)", "staleness", Better::Less},
    {"weight versions (most of a stage)", "weight_versions", Better::Less},
};

/// Parts of a device's idle time.
constexpr std::pair<const char *, int64_t DeviceTimes::*> idleParts[] = {
    {"fill", &DeviceTimes::fill},
    {"drain", &DeviceTimes::drain},
    {"transfer", &DeviceTimes::stallTransfer},
    {"imbalance", &DeviceTimes::imbalance},
    {"upstream", &DeviceTimes::stallUpstream},
};

using Values = std::vector<std::optional<Rational>>; // one a schedule

/// Forwards and backwards of all stages and microbatches, in ticks or nanoseconds: what any order has to do.
std::optional<Rational> workOf(const TimedSchedule &schedule) {
  const CostModel &costs = schedule.costs;
  __int128 sum = 0;
  for (const StageTable<int64_t> *table : {&costs.forward, &costs.backward}) {
    std::vector<__int128> rows(table->rowCount());
    for (uint32_t row = 0; row < rows.size(); ++row)
      for (uint32_t stage = 0; stage < table->stageCount(); ++stage)
        rows[row] += table->inRow(row, stage);
    for (uint32_t m = 0; m < schedule.program.microbatches && !rows.empty(); ++m)
      sum += rows[table->row(m)];
  }
  auto work = Rational::make(sum, 1);
  return work ? multiply(*work, costs.unit) : std::nullopt;
}

class Comparison {
public:
  explicit Comparison(llvm::ArrayRef<TimedSchedule> schedules)
      : schedules(schedules), isTimed(!schedules.front().costs.ticks) {
    for (const TimedSchedule &schedule : schedules)
      works.push_back(workOf(schedule));
    isSameWork = llvm::all_equal(works) && llvm::all_equal(valuesOf(samples));
  }

  std::string text() {
    addHead();
    for (const RowInfo &info : rowInfos)
      addFigure(info);
    addFits();
    addIdle();
    return title() + inChunks() + remarks();
  }

private:
  static std::optional<Rational> samples(const TimedSchedule &schedule) {
    auto perTime = schedule.figures.value("throughput");
    return perTime ? multiply(*perTime, Rational(schedule.figures.makespan)) : std::nullopt;
  }
  template <typename Get> Values valuesOf(Get get) const {
    Values values;
    for (const TimedSchedule &schedule : schedules)
      values.push_back(get(schedule));
    return values;
  }

  /// What all have in common stands in the title, what differs above the figures.
  void addHead() {
    std::vector<std::string> names = {""};
    for (const TimedSchedule &schedule : schedules)
      addText(names, schedule.program.name);
    rows.push_back(names);
    if (!llvm::all_equal(texts([](const TimedSchedule &schedule) { return schedule.file; })))
      addTexts("file", texts([](const TimedSchedule &schedule) { return schedule.file; }));
    std::vector<std::string> parameters;
    for (const TimedSchedule &schedule : schedules)
      for (const auto &[name, value] : schedule.parameters)
        if (!llvm::is_contained(parameters, name))
          parameters.push_back(name);
    for (const std::string &name : parameters) {
      auto values = texts([&](const TimedSchedule &schedule) {
        for (const auto &[other, value] : schedule.parameters)
          if (other == name)
            return value;
        return std::string("-");
      });
      if (llvm::all_equal(values)) {
        common.push_back(name + "=" + values.front());
      } else {
        differing.push_back(values);
        addTexts(name, values);
      }
    }
    for (auto [label, count] : {std::pair("stages", &Program::stages), {"devices", &Program::devices}})
      addCount(label, [count = count](const TimedSchedule &schedule) { return schedule.program.*count; });
    addCount("microbatches",
             [](const TimedSchedule &schedule) { return schedule.program.wholeMicrobatches(); });
    if (!llvm::all_equal(works))
      addValues("work (all forwards and backwards)", works, Better::Neither, FigureUnit::Time);
  }
  template <typename Get> void addCount(const char *label, Get get) {
    auto counts = texts([&](const TimedSchedule &schedule) { return std::to_string(get(schedule)); });
    // A parameter that is the same number says it already.
    if (!llvm::all_equal(counts) && !llvm::is_contained(differing, counts))
      addTexts(label, counts);
  }
  template <typename Get> std::vector<std::string> texts(Get get) const {
    std::vector<std::string> result;
    for (const TimedSchedule &schedule : schedules)
      result.push_back(get(schedule));
    return result;
  }

  void addFigure(const RowInfo &info) {
    const Values values = valuesOf(
        [&](const TimedSchedule &schedule) { return schedule.figures.valueInBaseUnits(info.figure); });
    const llvm::StringRef name = info.figure;
    // What only some schedules have is left out where none has it.
    const bool isRare = name == "transfer_exposed" || name == "bytes_offloaded" || name == "staleness" ||
                        name == "weight_versions";
    auto isNothing = [&](const std::optional<Rational> &value) {
      return !value || (isRare && *value <= (name == "weight_versions" ? 1 : 0));
    };
    if (llvm::all_of(values, isNothing))
      return;
    addValues(info.label, values, info.needsSameWork && !isSameWork ? Better::Neither : info.better,
              findFigure(info.figure)->unit);
  }

  void addFits() {
    auto answers = texts([](const TimedSchedule &schedule) {
      auto fits = schedule.figures.fits();
      return std::string(!fits ? "-" : *fits ? "yes" : "no");
    });
    if (!llvm::all_of(answers, [](const std::string &answer) { return answer == "-"; }))
      addTexts("fits", answers);
  }

  void addIdle() {
    for (const auto &[label, part] : idleParts) {
      const Values values = valuesOf([part = part](const TimedSchedule &schedule) -> std::optional<Rational> {
        __int128 sum = 0;
        for (const DeviceTimes &times : schedule.figures.times)
          sum += times.*part;
        auto mean = Rational::make(sum, static_cast<__int128>(schedule.figures.times.size()));
        return mean ? multiply(*mean, schedule.costs.unit) : std::nullopt;
      });
      if (!llvm::all_of(values, [](const std::optional<Rational> &value) { return value == Rational(0); }))
        addValues(fmt::format("idle: {} (mean)", label), values, Better::Neither, FigureUnit::Time);
    }
  }

  /// Cells of a row: of the first schedule its value, of each other its value and the change.
  static void addText(std::vector<std::string> &row, const std::string &text) {
    const bool isFirst = row.size() == 1;
    row.push_back(text);
    if (!isFirst)
      row.emplace_back();
  }
  void addTexts(const std::string &label, llvm::ArrayRef<std::string> cells) {
    std::vector<std::string> row = {label};
    for (const std::string &cell : cells)
      addText(row, cell);
    rows.push_back(row);
  }
  void addValues(const std::string &label, const Values &values, Better better, FigureUnit unit) {
    std::optional<Rational> best;
    for (const std::optional<Rational> &value : values)
      if (value && (!best || (better == Better::More ? *value > *best : *value < *best)))
        best = value;
    const bool hasBest = better != Better::Neither && !llvm::all_equal(values);
    std::vector<std::string> row = {label};
    for (const std::optional<Rational> &value : values) {
      const bool isBest = hasBest && value == best;
      hasMark |= isBest;
      row.push_back(value ? (isBest ? "* " : "") + textOf(*value, unit) : "-");
      if (row.size() > 2)
        row.push_back(changeOf(values.front(), value, unit));
    }
    rows.push_back(row);
  }
  /// A part of the first value; of ratios, which are parts themselves, the difference.
  std::string changeOf(const std::optional<Rational> &first, const std::optional<Rational> &value,
                       FigureUnit unit) {
    if (!first || !value)
      return "";
    if (*first == *value)
      return "=";
    auto change = subtract(*value, *first);
    if (unit != FigureUnit::Ratio && first->num < 0)
      return "";
    if (unit != FigureUnit::Ratio)
      change = change ? divide(*change, *first) : std::nullopt;
    change = change ? multiply(*change, Rational(100)) : std::nullopt;
    if (!change)
      return "";
    hasPoints |= unit == FigureUnit::Ratio;
    return (change->num > 0 ? "+" : "") + change->decimal(2) + (unit == FigureUnit::Ratio ? " pt" : " %");
  }
  std::string textOf(const Rational &value, FigureUnit unit) const {
    switch (unit) {
    case FigureUnit::Time:
      return isTimed ? formatTime(value)
                     : fmt::format("{} {}", value.decimal(3), value == 1 ? "tick" : "ticks");
    case FigureUnit::Ratio:
      return multiply(value, Rational(100)).value_or(value).decimal(2) + " %";
    case FigureUnit::Size:
      return formatSize(value);
    case FigureUnit::Rate:
      return isTimed ? fmt::format("{:.6g}/s", value.toDouble() * 1e9) : value.decimal(4) + "/tick";
    case FigureUnit::Count:
      break;
    }
    return value.str();
  }

  std::string title() const { return llvm::join(common, ", ") + (common.empty() ? "" : "\n\n"); }

  /// As many schedules beside each other as the window holds; the first stays at the left.
  std::string inChunks() const {
    const size_t limit = schedules.front().part.width;
    std::string text;
    size_t next = 1; // schedule
    do {
      size_t end = std::min(next + 1, schedules.size());
      std::string table = columns(next, end);
      while (end < schedules.size()) {
        const std::string wider = columns(next, end + 1);
        if (widest(wider) > limit)
          break;
        table = wider;
        ++end;
      }
      text += (text.empty() ? "" : "\n") + table;
      next = end;
    } while (next < schedules.size());
    return text;
  }
  std::string columns(size_t first, size_t end) const {
    std::vector<std::vector<std::string>> chosen;
    for (const std::vector<std::string> &row : rows) {
      chosen.emplace_back(row.begin(), row.begin() + 2);
      chosen.back().insert(chosen.back().end(), row.begin() + static_cast<ptrdiff_t>(2 * first),
                           row.begin() + static_cast<ptrdiff_t>(2 * end));
    }
    return inColumns(chosen);
  }
  static size_t widest(llvm::StringRef text) {
    size_t width = 0;
    for (llvm::StringRef line : llvm::split(text, '\n'))
      width = std::max(width, line.size());
    return width;
  }

  std::string remarks() const {
    std::string text = "\n";
    if (hasMark)
      text += "  * best of its row\n";
    text +=
        fmt::format("  changes are against {}{}; the idle parts add up to the bubble time\n",
                    schedules.front().program.name, hasPoints ? ", those of ratios in points of 1 %" : "");
    if (!isSameWork)
      text +=
          "  they do not do the same work, so their times and transfers have no best; compare throughput and "
          "ratios\n";
    for (const TimedSchedule &schedule : schedules)
      if (schedule.costs.isDefault) {
        text +=
            "  no model in the file: forward, backward_input and backward_weight take 1 tick each, transfers "
            "none\n";
        break;
      }
    return text;
  }

  llvm::ArrayRef<TimedSchedule> schedules;
  const bool isTimed;
  Values works;
  bool isSameWork = true, hasMark = false, hasPoints = false;
  std::vector<std::string> common;                 // parameters
  std::vector<std::vector<std::string>> differing; // values of the others
  std::vector<std::vector<std::string>> rows;      // label, first, then two cells a schedule
};

} // namespace

llvm::Expected<std::string> comparison(llvm::ArrayRef<TimedSchedule> schedules) {
  auto fail = [](const std::string &message) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
  };
  if (schedules.size() < 2)
    return fail("--compare needs two schedules or more; name another file, or declare another schedule");
  for (const TimedSchedule &schedule : schedules)
    if (schedule.costs.ticks != schedules.front().costs.ticks) {
      const bool isFirstTicks = schedules.front().costs.ticks;
      return fail(
          fmt::format("{} counts {}, {} {}: they cannot be compared; give both a model in the same unit",
                      schedules.front().program.name, isFirstTicks ? "ticks" : "seconds",
                      schedule.program.name, isFirstTicks ? "seconds" : "ticks"));
    }
  return Comparison(schedules).text();
}

} // namespace sluice
