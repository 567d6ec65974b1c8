// A sweep for spreadsheets: RFC 4180, a heading and a line a row.
#include "Emit/FigureScale.h"
#include "Emit/SweepTable.h"

#include <fmt/format.h>

namespace sluice {

namespace {

std::string quoted(llvm::StringRef text) {
  if (text.find_first_of(",\"\r\n") == llvm::StringRef::npos)
    return text.str();
  std::string out = "\"";
  for (char c : text)
    out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

class Lines {
public:
  void cell(llvm::StringRef text) {
    text_ += (isFirst ? "" : ",") + quoted(text);
    isFirst = false;
  }
  /// Shortest text that reads back as the same double; empty for nothing.
  void cell(const std::optional<Rational> &value) { cell(value ? fmt::format("{}", value->toDouble()) : ""); }
  void end() {
    text_ += "\n";
    isFirst = true;
  }
  std::string take() { return std::move(text_); }

private:
  std::string text_;
  bool isFirst = true;
};

/// `makespan_ms`, `throughput_per_s`, `idle_fraction`
std::string titled(const std::string &name, const std::string &unit) {
  if (unit == "1")
    return name;
  return name + "_" + (llvm::StringRef(unit).starts_with("1/") ? "per_" + unit.substr(2) : unit);
}

constexpr std::pair<const char *, Rational TimeSplit::*> parts[] = {{"total", &TimeSplit::total},
                                                                    {"kernel", &TimeSplit::kernel},
                                                                    {"bubble", &TimeSplit::bubble},
                                                                    {"transfer", &TimeSplit::transfer}};

} // namespace

std::string sweepCsv(const SweepTable &table) {
  const FigureScale time = fixedScale(FigureUnit::Time, table.ticks, table.displayUnit);
  auto scaleOf = [&](const SweepColumn &column) {
    return fixedScale(column.unit, table.ticks, table.displayUnit);
  };
  Lines lines;
  lines.cell("schedule");
  for (const std::string &name : table.swept)
    lines.cell(name);
  for (const char *name : {"held", "samples_per_microbatch", "batch"})
    lines.cell(name);
  for (const SweepColumn &column : table.columns)
    lines.cell(titled(column.title(), scaleOf(column).unit));
  for (const char *name : {"fits", "headroom_B"})
    lines.cell(name);
  for (auto [name, part] : parts)
    lines.cell(titled(fmt::format("sample_time_{}", name), time.unit));
  lines.cell("against");
  for (auto [name, part] : parts)
    lines.cell(titled(fmt::format("change_{}", name), time.unit));
  lines.cell("refused");
  lines.end();

  for (const SweepRow &row : table.rows) {
    const bool ran = row.refused.empty();
    auto number = [&](const Rational &value) { lines.cell(ran ? std::optional(value) : std::nullopt); };
    auto split = [&](const std::optional<TimeSplit> &times) {
      for (auto [name, part] : parts)
        lines.cell(times ? time.of(*times.*part) : std::nullopt);
    };
    lines.cell(row.schedule);
    for (const std::string &value : row.values)
      lines.cell(value);
    lines.cell(table.holdsBatch ? "batch" : "microbatch_samples");
    number(row.samples);
    number(row.batch);
    for (size_t i = 0; i < table.columns.size(); ++i)
      lines.cell(ran && row.figures[i] ? scaleOf(table.columns[i]).of(*row.figures[i]) : std::nullopt);
    lines.cell(!row.fits ? "" : *row.fits ? "yes" : "no");
    lines.cell(row.fits ? std::optional(Rational(row.headroom)) : std::nullopt);
    split(row.time);
    lines.cell(row.against);
    split(row.change);
    lines.cell(row.refused);
    lines.end();
  }
  return lines.take();
}

} // namespace sluice
