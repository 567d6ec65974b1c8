// A sweep for people: one table of figures, one of time per sample, and what the words mean.
#include "Emit/FigureScale.h"
#include "Emit/SweepTable.h"
#include "Support/Quantity.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

namespace {

using Cells = std::vector<std::string>; // one a row

/// Columns beside each other, right-aligned under a heading and its unit. A row that is said to be cut off
/// shows only the columns up to there, and words in place of the rest.
class Grid {
public:
  explicit Grid(size_t rows) : cut(rows) {}

  void add(std::string heading, std::string unit, Cells cells) {
    columns.push_back({std::move(heading), std::move(unit), std::move(cells)});
  }
  void cutOff(size_t row, std::string words) { cut[row] = {columns.size(), std::move(words)}; }

  std::string text() const {
    const bool hasUnits = llvm::any_of(columns, [](const Column &c) { return !c.unit.empty(); });
    std::string out = line([](const Column &c) { return c.heading; });
    if (hasUnits)
      out += line([](const Column &c) { return c.unit; });
    for (size_t row = 0; row < cut.size(); ++row)
      out += line([row](const Column &c) { return c.cells[row]; },
                  cut[row].words.empty() ? ~size_t(0) : cut[row].columns, cut[row].words);
    return out;
  }

private:
  struct Column {
    std::string heading, unit;
    Cells cells;
  };
  struct Cut {
    size_t columns = 0;
    std::string words = {};
  };

  size_t widthOf(const Column &column) const {
    size_t width = std::max(column.heading.size(), column.unit.size());
    for (size_t row = 0; row < cut.size(); ++row)
      width = std::max(width, column.cells[row].size());
    return width;
  }

  template <typename Cell>
  std::string line(Cell cell, size_t shown = ~size_t(0), llvm::StringRef words = "") const {
    std::string out;
    for (size_t i = 0; i < std::min(shown, columns.size()); ++i)
      out += fmt::format("  {:>{}}", cell(columns[i]), widthOf(columns[i]));
    if (!words.empty())
      out += "  " + words.str();
    return llvm::StringRef(out).rtrim().str() + "\n";
  }

  std::vector<Column> columns;
  std::vector<Cut> cut;
};

using Values = std::vector<std::optional<Rational>>; // one a row

std::vector<Rational> present(const Values &values) {
  std::vector<Rational> result;
  for (const auto &value : values)
    if (value)
      result.push_back(*value);
  return result;
}

/// With as many decimals as all need, at most three, or as few as leave the largest five digits.
unsigned decimalsOf(llvm::ArrayRef<Rational> scaled) {
  unsigned needed = 0;
  double largest = 0;
  bool isExact = true;
  for (const Rational &value : scaled) {
    largest = std::max(largest, std::abs(value.toDouble()));
    unsigned digits = 0;
    for (int64_t power = 1; digits < 4 && power % value.den != 0; ++digits)
      power *= 10;
    needed = std::max(needed, digits);
    isExact &= digits < 4;
  }
  if (isExact)
    return needed;
  return largest >= 10'000 ? 1 : largest >= 1'000 ? 1 : largest >= 100 ? 2 : 3;
}

std::string withDecimals(const Rational &value, unsigned decimals) {
  std::string text = value.decimal(decimals);
  const size_t point = text.find('.');
  const size_t has = point == std::string::npos ? 0 : text.size() - point - 1;
  return has >= decimals ? text : text + (has == 0 ? "." : "") + std::string(decimals - has, '0');
}

Cells scaledCells(const Values &values, const FigureScale &scale, bool isSigned = false) {
  std::vector<std::optional<Rational>> scaled;
  for (const auto &value : values)
    scaled.push_back(value ? scale.of(*value) : std::nullopt);
  const unsigned decimals = decimalsOf(present(scaled));
  Cells cells;
  for (const auto &value : scaled) {
    const bool plus = isSigned && value && value->num > 0;
    cells.push_back(value ? (plus ? "+" : "") + withDecimals(*value, decimals) : "-");
  }
  return cells;
}

class Report {
public:
  explicit Report(const SweepTable &table) : table(table) {}

  std::string text() {
    std::string out = heading() + "\n" + figures().text();
    if (table.leftOut > 0)
      out += fmt::format("  {} row{} left out: the memory of some device is too small (--fits)\n",
                         table.leftOut, table.leftOut == 1 ? "" : "s");
    if (!table.sortedBy.empty())
      out += "  sorted by " + table.sortedBy + "\n";
    out += words();
    if (llvm::any_of(table.rows, [](const SweepRow &row) { return row.time.has_value(); }))
      out += "\n" + timeCaption() + split().text() + splitWords();
    for (const std::string &note : table.notes)
      out += "note: " + note + "\n";
    return out;
  }

private:
  std::string heading() const {
    return fmt::format("{} (modeled, not measured)\n{}:\n{}\n", table.title, table.invariant, table.meaning);
  }

  /// What tells the rows from each other.
  void addNames(Grid &grid) const {
    auto column = [&](auto get) {
      Cells cells;
      for (const SweepRow &row : table.rows)
        cells.push_back(get(row));
      return cells;
    };
    if (table.hasSchedules)
      grid.add("schedule", "", column([](const SweepRow &row) { return row.schedule; }));
    for (size_t i = 0; i < table.swept.size(); ++i)
      grid.add(table.swept[i], "", column([i](const SweepRow &row) { return row.values[i]; }));
  }

  Values valuesOf(llvm::function_ref<std::optional<Rational>(const SweepRow &)> get) const {
    Values values;
    for (const SweepRow &row : table.rows)
      values.push_back(row.refused.empty() ? get(row) : std::nullopt);
    return values;
  }

  Grid figures() const {
    Grid grid(table.rows.size());
    addNames(grid);
    for (size_t row = 0; row < table.rows.size(); ++row)
      if (!table.rows[row].refused.empty())
        grid.cutOff(row, "refused: " + table.rows[row].refused);
    Cells samples, batch;
    for (const SweepRow &row : table.rows) {
      samples.push_back(row.leastSamples == row.mostSamples
                            ? row.samples.str()
                            : fmt::format("{}..{}", row.leastSamples, row.mostSamples));
      batch.push_back(std::to_string(row.batch));
    }
    grid.add("samples", "", std::move(samples));
    grid.add("batch", "", std::move(batch));
    for (size_t i = 0; i < table.columns.size(); ++i) {
      const SweepColumn &column = table.columns[i];
      const Values values = valuesOf([i](const SweepRow &row) { return row.figures[i]; });
      const FigureScale scale = readableScale(column.unit, table.ticks, present(values));
      // Rates count samples.
      const std::string unit =
          column.unit == FigureUnit::Rate ? "samples" + scale.unit.substr(1) : scale.unit;
      grid.add(column.title(), unit == "1" ? "" : unit, scaledCells(values, scale));
    }
    Cells fits = headroom();
    for (auto [cell, row] : llvm::zip_equal(fits, table.rows))
      if (row.fits)
        cell = fmt::format("{}, {} {}", *row.fits ? "yes" : "no", cell, *row.fits ? "free" : "short");
    grid.add("fits", "", std::move(fits));
    return grid;
  }

  /// What stays free, or is lacking: `3.2 GiB`.
  Cells headroom() const {
    const Values bytes = valuesOf([](const SweepRow &row) {
      const Rational size = row.headroom;
      return !row.fits ? std::nullopt : *row.fits ? std::optional(size) : subtract(Rational(0), size);
    });
    const FigureScale scale = readableScale(FigureUnit::Size, table.ticks, present(bytes));
    Cells cells = scaledCells(bytes, scale);
    for (auto [cell, value] : llvm::zip_equal(cells, bytes))
      cell += value ? " " + scale.unit : "";
    return cells;
  }

  std::string words() const {
    return "  samples: of a microbatch; batch: of a step, all replicas; throughput: samples of all replicas "
           "/ "
           "makespan\n  idle_fraction: bubble / makespan; overhead_ratio: bubble / ideal; peak_memory, fits: "
           "the fullest device\n";
  }

  std::string timeCaption() const {
    return table.comparedAlong.empty()
               ? "time per sample = makespan / batch\n"
               : fmt::format("time per sample = makespan / batch, and its change against the setting before "
                             "along {}\n",
                             table.comparedAlong);
  }

  Grid split() const {
    Grid grid(table.rows.size());
    addNames(grid);
    for (size_t row = 0; row < table.rows.size(); ++row)
      if (!table.rows[row].refused.empty())
        grid.cutOff(row, "refused");
    const Values times = valuesOf(
        [](const SweepRow &row) { return row.time ? std::optional(row.time->total) : std::nullopt; });
    const FigureScale scale = readableScale(FigureUnit::Time, table.ticks, present(times));
    grid.add("time", scale.unit, scaledCells(times, scale));
    if (table.comparedAlong.empty()) {
      for (auto [name, part] : parts())
        grid.add(name, scale.unit, scaledCells(partOf(&SweepRow::time, part), scale));
      return grid;
    }
    Cells against;
    for (const SweepRow &row : table.rows)
      against.push_back(row.against.empty() ? "-" : row.against);
    grid.add("against", "", std::move(against));
    grid.add("change", scale.unit, scaledCells(partOf(&SweepRow::change, &TimeSplit::total), scale, true));
    for (auto [name, part] : parts())
      grid.add(name, scale.unit, scaledCells(partOf(&SweepRow::change, part), scale, true));
    return grid;
  }

  using Part = Rational TimeSplit::*;
  static std::array<std::pair<const char *, Part>, 3> parts() {
    return {
        {{"kernel", &TimeSplit::kernel}, {"bubble", &TimeSplit::bubble}, {"transfer", &TimeSplit::transfer}}};
  }
  Values partOf(std::optional<TimeSplit> SweepRow::*which, Part part) const {
    return valuesOf([=](const SweepRow &row) {
      const auto &split = row.*which;
      return split ? std::optional(*split.*part) : std::nullopt;
    });
  }

  std::string splitWords() const {
    return fmt::format(
        "  {} = kernel + bubble + transfer, exactly (here rounded; --format json has the fractions)\n"
        "  kernel: mean time of a device in computations and updates / batch\n"
        "  bubble: (makespan without transfers - that mean) / batch; transfer: what transfers add / batch\n",
        table.comparedAlong.empty() ? "time" : "change");
  }

  const SweepTable &table;
};

} // namespace

std::string sweepText(const SweepTable &table) { return Report(table).text(); }

} // namespace sluice
