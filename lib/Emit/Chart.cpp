#include "Emit/Chart.h"

#include "Emit/Palette.h"
#include "Emit/TimeScale.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace sluice {

namespace {

class Rows {
public:
  Rows(const Program &program, const CostModel &costs, const Timeline &timeline, const ChartOptions &options)
      : program(program), costs(costs), timeline(timeline), options(options),
        deviceEnd(std::min(options.deviceEnd, program.devices)),
        indent(static_cast<unsigned>(labelOf(0, 1).size()) + 2), scale(scaleFor()) {}

  std::string text() {
    if (options.firstDevice >= deviceEnd)
      return "";
    std::string rows;
    const bool cells = perRow() == 1 && fitsCells();
    withLetters = cells && fitsLetters();
    for (uint32_t device = options.firstDevice; device < deviceEnd; device += perRow()) {
      const uint32_t end = std::min(device + perRow(), deviceEnd);
      const std::string row = fmt::format("{:<{}}{}", labelOf(device, end), indent,
                                          cells ? cellRow(device) : densityRow(device, end));
      rows += llvm::StringRef(row).rtrim(' ').str() + "\n";
    }
    return scale.axis(costs, indent, options.ascii) + rows + legend(cells);
  }

private:
  struct Cell {
    Look look = Look::Idle;
    char text = 0; ///< Of the label; 0: the fill.
  };

  uint32_t perRow() const {
    const uint32_t shown = deviceEnd - options.firstDevice;
    return options.maxRows == 0 || shown <= options.maxRows ? 1
                                                            : (shown + options.maxRows - 1) / options.maxRows;
  }
  std::string labelOf(uint32_t device, uint32_t end) const {
    if (perRow() == 1)
      return fmt::format("device {:<{}}", device, std::to_string(deviceEnd - 1).size());
    const size_t digits = std::to_string(deviceEnd).size();
    return fmt::format("devices {:>{}}..{:<{}}", device, digits, end, digits);
  }
  TimeScale scaleFor() const {
    const int64_t from = std::clamp<int64_t>(options.from.value_or(0), 0, timeline.makespan);
    const int64_t to = std::clamp<int64_t>(options.to.value_or(timeline.makespan), from, timeline.makespan);
    const unsigned width = options.width > indent + 20 ? options.width - indent : 20;
    return TimeScale(program, costs, timeline, from, to, width);
  }

  template <typename See> void forEach(uint32_t device, See see) const {
    forEachRun(program, costs, timeline, scale.from(), scale.to(), device, see);
  }

  // Cells need columns: on average one and a half an op on the row that has most.
  bool fitsCells() const {
    for (uint32_t device = options.firstDevice; device < deviceEnd; ++device) {
      uint64_t runs = 0;
      forEach(device, [&](OpId, OpId, int64_t, int64_t) { ++runs; });
      if (3 * runs > 2 * uint64_t(scale.columns()))
        return false;
    }
    return true;
  }
  // Letters for the stages of a device are shown everywhere or nowhere.
  bool fitsLetters() const {
    bool several = false, any = false, fit = true;
    for (uint32_t device = options.firstDevice; device < deviceEnd; ++device) {
      const std::vector<uint32_t> stages = program.stagesOn(device);
      several |= stages.size() > 1;
      fit &= stages.size() <= 26;
      forEach(device, [&](OpId first, OpId end, int64_t start, int64_t stop) {
        if (!program.ops[first].hasMicrobatch())
          return;
        const size_t length = std::to_string(program.ops[first].microbatch).size() + 2;
        any = true;
        fit &= end - first > 1 || scale.edge(stop) - scale.edge(start) >= length;
      });
    }
    return several && any && fit;
  }

  /// Microbatches; of what has none nothing.
  std::string labelOf(OpId first, OpId end, llvm::ArrayRef<uint32_t> stages) const {
    std::string label;
    if (!program.ops[first].hasMicrobatch())
      return label;
    for (OpId op = first; op < end; ++op) {
      label += (op == first ? "" : "&") + std::to_string(program.ops[op].microbatch);
      if (withLetters)
        label += static_cast<char>('a' + (llvm::find(stages, program.ops[op].stage) - stages.begin()));
    }
    return label;
  }

  std::string cellRow(uint32_t device) {
    std::vector<Cell> cells(scale.columns());
    const std::vector<uint32_t> stages = program.stagesOn(device);
    forEach(device, [&](OpId first, OpId end, int64_t start, int64_t stop) {
      const unsigned begin = std::min(scale.edge(start), scale.columns() - 1),
                     width = scale.edge(stop) - begin;
      const Look look = lookOf(program, first, end);
      seen[static_cast<unsigned>(look)] = true;
      if (width == 0 && cells[begin].look == Look::Idle)
        cells[begin].look = look; // too short for a column, but not to be overlooked
      for (unsigned at = begin; at < begin + width; ++at)
        cells[at] = {look, 0};
      const std::string label = labelOf(first, end, stages);
      // A bare digit is a forward; anything else needs its fill to be known by, and longer numbers side by
      // side could not be told apart.
      const bool bare = look == Look::Forward && label.size() == 1;
      if (!label.empty() && width >= label.size() + (bare ? 0 : 1))
        for (unsigned i = 0; i < label.size(); ++i)
          cells[begin + i].text = label[i];
    });
    return render(cells);
  }

  std::string render(llvm::ArrayRef<Cell> cells) const {
    std::string row;
    Look painted = Look::Idle;
    for (const Cell &cell : cells) {
      if (options.color && cell.look != painted)
        row += paint(painted = cell.look);
      if (cell.text)
        row += cell.text;
      else
        row += options.color ? " " : options.ascii ? info(cell.look).ascii : info(cell.look).glyph;
    }
    return painted == Look::Idle ? row : row + paint(Look::Idle);
  }
  static std::string paint(Look look) {
    return look == Look::Idle ? "\x1b[0m" : fmt::format("\x1b[30;48;5;{}m", info(look).terminalColor);
  }

  std::string densityRow(uint32_t device, uint32_t end) const {
    // In parts of a column: a column is `span` long once times are multiplied by the number of columns.
    const __int128 span = scale.to() - scale.from();
    std::vector<__int128> busy(scale.columns());
    for (uint32_t member = device; member < end; ++member)
      forEach(member, [&](OpId, OpId, int64_t start, int64_t stop) {
        const __int128 first = static_cast<__int128>(start - scale.from()) * scale.columns();
        const __int128 last = static_cast<__int128>(stop - scale.from()) * scale.columns();
        for (__int128 at = first / span; at * span < last; ++at)
          busy[static_cast<size_t>(at)] += std::min(last, (at + 1) * span) - std::max(first, at * span);
      });
    std::string row;
    for (__int128 share : busy)
      row += shade(static_cast<double>(share) / static_cast<double>(span) / (end - device));
    return row;
  }
  std::string shade(double share) const {
    static constexpr const char *bars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    // Only nothing is blank and only all is full, so that no small gap or piece of work goes unseen.
    const int levels = options.ascii ? 10 : 8;
    int level = static_cast<int>(share * levels);
    if (share > 0)
      level = std::clamp(level, 1, share < 1 - 1e-12 ? levels - 1 : levels);
    if (!options.ascii)
      return bars[level];
    return level == 0 ? " " : level == levels ? "#" : std::to_string(level);
  }

  struct LegendItem {
    std::string text;
    size_t width; ///< Columns on a terminal: `text` may hold colours and wide encodings.
  };
  std::string legend(bool cells) const {
    std::vector<LegendItem> items;
    auto add = [&](std::string text) { items.push_back({text, text.size()}); };
    if (cells) {
      for (unsigned look = 1; look < lookCount; ++look)
        if (seen[look])
          items.push_back(key(static_cast<Look>(look)));
      add("blank: idle");
      add("m: microbatch");
      if (withLetters)
        add("a, b: the device's stages, ascending");
    } else {
      if (options.ascii)
        add("1 to 9: tenths of a column that the device is busy, #: all of it");
      else
        items.push_back({"▁▂▃▄▅▆▇█: share of a column that the device is busy", 51});
      add("blank: idle");
      if (perRow() > 1)
        add("rows show the mean of their devices");
    }
    add("one column: " + columnText());
    return wrap(items);
  }
  LegendItem key(Look look) const {
    const Cell cell{look, 0};
    const bool isLabelled = look <= Look::Overlap || look == Look::Offload || look == Look::Transfer;
    return {fmt::format("{} {}", render({{look, isLabelled ? 'm' : '\0'}, cell, cell}), info(look).meaning),
            4 + llvm::StringRef(info(look).meaning).size()};
  }
  std::string wrap(llvm::ArrayRef<LegendItem> items) const {
    std::string lines(indent, ' ');
    size_t used = indent;
    for (const LegendItem &item : items) {
      if (used > indent && used + item.width > options.width) {
        lines += "\n" + std::string(indent, ' ');
        used = indent;
      }
      lines += (used > indent ? "  " : "") + item.text;
      used += item.width + 2;
    }
    return lines + "\n";
  }
  /// Exact if that is short, else rounded to four digits.
  std::string columnText() const {
    const Rational column = scale.column();
    auto base = inBaseUnits(costs, column);
    if (!base || base->num < 10'000 * base->den)
      return formatUnits(costs, column);
    int64_t grain = 1;
    while (base->floor() / grain >= 10'000)
      grain *= 10;
    const int64_t rounded = (base->floor() + grain / 2) / grain * grain;
    auto units = divide(Rational(rounded), costs.unit);
    return (*base == Rational(rounded) ? "" : "about ") + formatUnits(costs, units.value_or(column));
  }

  const Program &program;
  const CostModel &costs;
  const Timeline &timeline;
  const ChartOptions &options;
  uint32_t deviceEnd;
  unsigned indent;
  TimeScale scale;
  bool withLetters = false;
  std::array<bool, lookCount> seen{};
};

} // namespace

std::string chartRows(const Program &program, const CostModel &costs, const Timeline &timeline,
                      const ChartOptions &options) {
  return Rows(program, costs, timeline, options).text();
}

std::string chart(const Program &program, const CostModel &costs, const Timeline &timeline,
                  const Figures &figures, const ChartOptions &options) {
  return chartRows(program, costs, timeline, options) + "\n" + figuresText(program, costs, figures, options);
}

} // namespace sluice
