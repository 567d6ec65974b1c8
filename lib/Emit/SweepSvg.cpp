// A sweep as a plot: a row a setting, its throughput as one bar, its time per sample as another of three
// parts. Colours are those of Emit/Palette, on light and dark pages; text stays text, lengths are hundredths
// of a pixel.
#include "Emit/FigureScale.h"
#include "Emit/Palette.h"
#include "Emit/SvgRows.h"
#include "Emit/SweepTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace sluice {

namespace {

constexpr Pixels margin = 24 * pixel, rowPitch = 24 * pixel, barHeight = 15 * pixel;
constexpr Pixels captionTop = 84 * pixel, axisHeight = 44 * pixel, legendHeight = 66 * pixel;
constexpr Pixels rateWidth = 190 * pixel, timeWidth = 330 * pixel, gap = 74 * pixel;
constexpr Pixels valueWidth = 150 * pixel; ///< Room behind the longest bar for its value.
constexpr Pixels letter = 750, smallLetter = 620;

/// The colours of pages are those of Svg.cpp.
std::string colors(uint32_t page, uint32_t ink, uint32_t muted, uint32_t grid, uint32_t track,
                   unsigned darkened) {
  auto look = [&](Look of) { return mix(shadeOf(of, 0, 1), 0x12161c, darkened); };
  return fmt::format(".page{{fill:#{:06x}}}text{{fill:#{:06x}}}.axis,.small,.key{{fill:#{:06x}}}"
                     ".grid{{stroke:#{:06x}}}.bubble{{fill:#{:06x};stroke:#{:06x}}}.rate{{fill:#{:06x}}}"
                     ".kernel{{fill:#{:06x}}}.transfer{{fill:#{:06x}}}",
                     page, ink, muted, grid, track, grid, look(Look::Update), look(Look::Forward),
                     look(Look::Transfer));
}

std::string style() {
  return "<style>\n"
         "text{font:12px system-ui,-apple-system,\"Segoe UI\",Helvetica,Arial,sans-serif}"
         ".name{font-size:16px;font-weight:600}.label{text-anchor:end}.small,.axis,.key{font-size:11px}"
         ".axis{text-anchor:middle}.label,.axis,.value{font-variant-numeric:tabular-nums}"
         ".grid,.bubble{stroke-width:1}.grid{fill:none}\n" +
         colors(0xffffff, 0x1b1f24, 0x59636e, 0xcdd3da, 0xe9ecef, 0) +
         "\n@media (prefers-color-scheme:dark){" +
         colors(0x12161c, 0xe6eaef, 0x98a3b0, 0x3d4652, 0x232b35, 12) + "}\n</style>\n";
}

std::string textAt(Pixels x, Pixels y, llvm::StringRef kind, llvm::StringRef text) {
  return fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>\n", kind.str(), str(x), str(y),
                     escaped(text));
}

/// From 0 to the largest value, in one unit, with lines at round numbers.
class Axis {
public:
  Axis(FigureUnit kind, bool ticks, llvm::ArrayRef<Rational> values, Pixels left, Pixels width)
      : scale(readableScale(kind, ticks, values)), left(left), width(width) {
    for (const Rational &value : values)
      largest = std::max(largest, inUnit(value));
  }

  Pixels at(const Rational &value) const { return left + length(inUnit(value)); }
  double inUnit(const Rational &value) const { return value.toDouble() * scale.factor.toDouble(); }
  const std::string &unit() const { return scale.unit; }

  std::string lines(Pixels top, Pixels bottom) const {
    std::string out;
    const double step = stepOf(largest / 5);
    for (int i = 0; i * step <= largest * 1.0001; ++i) {
      const Pixels x = left + length(i * step);
      out += fmt::format("<path class=\"grid\" d=\"M{} {}V{}\"/>", str(x), str(top), str(bottom));
      out += textAt(x, bottom + 15 * pixel, "axis", fmt::format("{:g}", i * step));
    }
    return out;
  }

private:
  Pixels length(double value) const {
    return largest <= 0 ? 0 : std::llround(value / largest * static_cast<double>(width));
  }
  /// Smallest of 1, 2, 5 times a power of ten that is at least `least`.
  static double stepOf(double least) {
    if (least <= 0)
      return 1;
    const double power = std::pow(10, std::floor(std::log10(least)));
    for (double digit : {1.0, 2.0, 5.0})
      if (digit * power >= least)
        return digit * power;
    return 10 * power;
  }

  FigureScale scale;
  Pixels left, width;
  double largest = 0;
};

class Plot {
public:
  explicit Plot(const SweepTable &table)
      : table(table), left(margin + labelWidth() + 10 * pixel),
        rates(FigureUnit::Rate, table.ticks, ratesOf(), left, rateWidth),
        times(FigureUnit::Time, table.ticks, timesOf(), left + rateWidth + gap, timeWidth) {}

  std::string text() const {
    const Pixels top = captionTop, bottom = top + static_cast<Pixels>(table.rows.size()) * rowPitch;
    const Pixels words = smallLetter * static_cast<Pixels>(meaning().size());
    const Pixels right = std::max(timeLeft() + timeWidth + valueWidth, margin + words);
    const Pixels height = bottom + axisHeight + legendHeight, width = right + margin;
    std::string body =
        caption() + rates.lines(top - 4 * pixel, bottom) + "\n" + times.lines(top - 4 * pixel, bottom) + "\n";
    for (size_t i = 0; i < table.rows.size(); ++i)
      body += row(table.rows[i], top + static_cast<Pixels>(i) * rowPitch, right);
    body += axisTitles(bottom) + legend(bottom + axisHeight);
    return fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
                       "height=\"{1}\" role=\"img\" aria-label=\"{2}\">\n",
                       str(width), str(height), escaped(table.title)) +
           style() + "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n" + body + "</svg>\n";
  }

private:
  static std::optional<Rational> rateOf(const SweepTable &table, const SweepRow &row) {
    const auto column =
        llvm::find_if(table.columns, [](const SweepColumn &c) { return c.title() == "throughput"; });
    return column == table.columns.end() || !row.refused.empty()
               ? std::nullopt
               : row.figures[static_cast<size_t>(column - table.columns.begin())];
  }
  std::vector<Rational> ratesOf() const {
    std::vector<Rational> values;
    for (const SweepRow &row : table.rows)
      if (auto rate = rateOf(table, row))
        values.push_back(*rate);
    return values;
  }
  std::vector<Rational> timesOf() const {
    std::vector<Rational> values;
    for (const SweepRow &row : table.rows)
      if (row.time)
        values.push_back(row.time->total);
    return values;
  }
  Pixels timeLeft() const { return left + rateWidth + gap; }

  std::string labelOf(const SweepRow &row) const {
    std::vector<std::string> parts;
    for (auto [name, value] : llvm::zip_equal(table.swept, row.values))
      parts.push_back(name + "=" + value);
    return (table.hasSchedules ? row.schedule + " " : "") + llvm::join(parts, ", ");
  }
  Pixels labelWidth() const {
    size_t longest = 0;
    for (const SweepRow &row : table.rows)
      longest = std::max(longest, labelOf(row).size());
    return letter * static_cast<Pixels>(longest);
  }

  std::string meaning() const { return table.invariant + ": " + table.meaning; }

  std::string caption() const {
    return textAt(margin, margin + 16 * pixel, "name", table.title) +
           textAt(margin, margin + 36 * pixel, "small", meaning());
  }

  std::string bar(llvm::StringRef kind, Pixels from, Pixels to, Pixels y) const {
    return to <= from ? ""
                      : fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
                                    kind.str(), str(from), str(y), str(to - from), str(barHeight));
  }

  std::string value(const Axis &axis, const Rational &exact) const {
    return fmt::format("{:.4g} {}", axis.inUnit(exact), axis.unit());
  }

  std::string row(const SweepRow &row, Pixels top, Pixels right) const {
    const Pixels y = top + 4 * pixel, base = y + 12 * pixel;
    std::string out = textAt(left - 10 * pixel, base, "label", labelOf(row));
    if (!row.refused.empty()) {
      const std::string words = "refused: " + row.refused;
      const auto fits = static_cast<size_t>((right - left) / smallLetter);
      return out + fmt::format("<g><title>{}</title>{}</g>\n", escaped(words),
                               textAt(left + 6 * pixel, base, "small",
                                      words.size() <= fits ? words : words.substr(0, fits - 1) + "…"));
    }
    if (auto rate = rateOf(table, row))
      out += fmt::format(
          "<g><title>throughput {}</title>{}{}</g>\n", value(rates, *rate),
          bar("rate", left, rates.at(*rate), y),
          textAt(rates.at(*rate) + 6 * pixel, base, "value", fmt::format("{:.4g}", rates.inUnit(*rate))));
    return out + (row.time ? split(row, *row.time, y, base) : "");
  }

  std::string split(const SweepRow &row, const TimeSplit &time, Pixels y, Pixels base) const {
    const Rational zero = 0;
    Pixels x = timeLeft();
    std::string bars;
    const std::pair<const char *, Rational TimeSplit::*> parts[] = {
        {"kernel", &TimeSplit::kernel}, {"bubble", &TimeSplit::bubble}, {"transfer", &TimeSplit::transfer}};
    Rational sum = 0;
    for (auto [name, part] : parts) {
      // Ends of parts are those of exact sums, so that rounding does not add up. A part below 0, as late
      // transfers may by chance be, is in the words alone.
      sum = time.*part < zero ? sum : add(sum, time.*part).value_or(sum);
      const Pixels end = times.at(sum);
      bars +=
          fmt::format("<g><title>{} {} a sample{}</title>{}</g>", name, value(times, time.*part),
                      row.change ? fmt::format(", {}{:.4g} against {}", *row.change.*part < zero ? "" : "+",
                                               times.inUnit(*row.change.*part), row.against)
                                 : "",
                      bar(name, x, end, y));
      x = end;
    }
    return bars +
           textAt(x + 6 * pixel, base, "value",
                  value(times, time.total) + (row.fits == false ? " · does not fit" : "")) +
           "\n";
  }

  std::string axisTitles(Pixels bottom) const {
    return textAt(left, bottom + 32 * pixel, "small",
                  "throughput, samples" + rates.unit().substr(1) + ": batch ÷ makespan") +
           textAt(timeLeft(), bottom + 32 * pixel, "small",
                  "time per sample, " + times.unit() + ": makespan ÷ batch");
  }

  std::string legend(Pixels top) const {
    static constexpr std::pair<const char *, const char *> keys[] = {
        {"kernel", "kernel: mean time of a device in computations and updates ÷ batch"},
        {"bubble", "bubble: (makespan without transfers − that mean) ÷ batch"},
        {"transfer", "transfer: what transfers add to the makespan ÷ batch; modeled, not measured"}};
    std::string out;
    Pixels y = top + 4 * pixel;
    for (auto [kind, words] : keys) {
      out += fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"13\" height=\"12\"/>", kind,
                         str(timeLeft()), str(y)) +
             textAt(timeLeft() + 20 * pixel, y + 10 * pixel, "key", words);
      y += 18 * pixel;
    }
    return out;
  }

  const SweepTable &table;
  Pixels left; ///< Where the bars of throughput begin.
  Axis rates, times;
};

} // namespace

std::string sweepSvg(const SweepTable &table) { return Plot(table).text(); }

} // namespace sluice
