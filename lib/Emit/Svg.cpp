#include "Emit/Svg.h"

#include "Emit/Caption.h"
#include "Emit/Part.h"
#include "Emit/SvgRows.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

namespace {

constexpr Pixels margin = 24 * pixel;
constexpr const char *separator = "   ·   ";
constexpr Pixels noteHeight = 16 * pixel, blockGap = 30 * pixel;

struct Colors {
  uint32_t page, ink, muted, grid, track, memory;
};
constexpr Colors light = {0xffffff, 0x1b1f24, 0x59636e, 0xcdd3da, 0xe9ecef, 0xb4bcc6};
constexpr Colors dark = {0x12161c, 0xe6eaef, 0x98a3b0, 0x3d4652, 0x232b35, 0x4c5866};
constexpr uint32_t inkOnOps = 0x10151b;

std::string styleOf(const Colors &colors, unsigned darkened, const SvgLooks &looks) {
  std::string css = fmt::format(
      ".page{{fill:#{:06x}}}text{{fill:#{:06x}}}.axis,.small,.figures,.key,.number{{fill:#{:06x}}}"
      ".idle{{fill:#{:06x}}}.grid{{stroke:#{:06x}}}",
      colors.page, colors.ink, colors.muted, colors.track, colors.grid);
  if (looks.critical)
    css += fmt::format(".critical{{stroke:#{:06x}}}", colors.ink);
  if (looks.memory)
    css += fmt::format(".memory{{fill:#{:06x}}}.limit{{stroke:#{:06x}}}", colors.memory, colors.ink);
  for (unsigned look = 1; look < lookCount; ++look)
    for (unsigned shade = 0; shade < maxShades && looks.shades[look] > 0; ++shade)
      css += fmt::format(".{}{{fill:#{:06x}}}", classOf(static_cast<Look>(look), shade),
                         mix(shadeOf(static_cast<Look>(look), shade, maxShades), dark.page, darkened));
  return css;
}

/// Colours follow the page; without a style sheet's support for that, light holds.
std::string style(const SvgLooks &looks) {
  return fmt::format("<style>\n"
                     "text{{font:12px system-ui,-apple-system,\"Segoe UI\",Helvetica,Arial,sans-serif}}"
                     ".name{{font-size:16px;font-weight:600}}.parameters{{font-weight:400}}"
                     ".small{{font-size:10px}}.axis{{font-size:11px;text-anchor:middle}}"
                     ".number,.unit{{text-anchor:end}}.number,.axis{{font-variant-numeric:tabular-nums}}"
                     ".grid{{stroke-width:1;fill:none}}{}\n"
                     "{}\n"
                     "@media (prefers-color-scheme:dark){{{}}}\n"
                     ".op text{{fill:#{:06x};text-anchor:middle;font-size:inherit}}\n"
                     "</style>\n",
                     looks.critical || looks.limit ? ".critical{stroke-width:2;fill:none}"
                                                     ".limit{stroke-width:1;stroke-dasharray:4 3;fill:none}"
                                                   : "",
                     styleOf(light, 0, looks), styleOf(dark, 12, looks), inkOnOps);
}

std::string line(Pixels x, Pixels y, llvm::StringRef kind, llvm::StringRef text) {
  return fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>\n", kind.str(), str(x), str(y),
                     text.str());
}

/// What of the figures goes beyond compute: two lines say the rest.
std::string furtherFigures(const TimedSchedule &schedule) {
  std::string text;
  for (const CaptionFigure &figure : captionFigures(schedule))
    if (figure.name == "transfer exposed" || figure.name == "peak memory")
      text += fmt::format("{}{} {}: {}", text.empty() ? "" : separator, figure.name, figure.value,
                          figure.meaning);
  return text;
}

Pixels captionHeight(const TimedSchedule &schedule) {
  return (furtherFigures(schedule).empty() ? 74 : 92) * pixel;
}

/// Name and parameters, then the figures with their denominators.
std::string caption(const TimedSchedule &schedule, Pixels top) {
  const Figures &figures = schedule.figures;
  std::string title = escaped(schedule.program.name);
  if (!schedule.parameters.empty())
    title += fmt::format("  <tspan class=\"parameters\">{}</tspan>", escaped(schedule.parameterText()));
  std::string out = line(margin, top + 16 * pixel, "name", title);
  std::string ratios = "makespan " + formatUnits(schedule.costs, figures.makespan);
  if (figures.idleFraction && figures.overheadRatio)
    ratios += fmt::format("{0}idle fraction {1} (bubble ÷ elapsed){0}overhead ratio {2} (bubble ÷ ideal)",
                          separator, percentText(*figures.idleFraction), percentText(*figures.overheadRatio));
  out += line(margin, top + 38 * pixel, "figures", ratios);
  uint32_t peak = 0;
  for (const DeviceMemory &memory : figures.memory.devices)
    peak = std::max(peak, memory.peakActivation);
  out += line(margin, top + 56 * pixel, "figures",
              fmt::format("bubble {1}: mean idle time of a device{0}peak activation {2}: pairs of stage and "
                          "microbatch alive on the fullest device{0}modeled, not measured",
                          separator, formatUnits(schedule.costs, figures.bubbleTime), peak));
  if (const std::string further = furtherFigures(schedule); !further.empty())
    out += line(margin, top + 74 * pixel, "figures", further);
  return out;
}

bool sharesRows(const TimedSchedule &schedule) {
  const Part part(schedule);
  return schedule.part.maxRows > 0 && part.deviceEnd - part.firstDevice > schedule.part.maxRows;
}

/// What the picture leaves out.
std::vector<std::string> notesOf(const TimedSchedule &schedule) {
  std::vector<std::string> notes;
  if (schedule.costs.isDefault)
    notes.push_back("no model in the file: forward, backward_input and backward_weight take 1 tick each, "
                    "transfers none");
  const ChartOptions &part = schedule.part;
  if (sharesRows(schedule) && (part.transfers || part.critical || part.memoryStrip))
    notes.push_back(fmt::format("what is under way, memory and the critical path are drawn for at most {} "
                                "devices: choose them with --devices",
                                part.maxRows));
  return notes;
}

class Legend {
public:
  Legend(const SvgLooks &looks, Pixels top, Pixels right) : looks(looks), y(top), right(right) {
    unsigned most = 0;
    for (unsigned look = 1; look < lookCount; ++look)
      if (const unsigned shades = looks.shades[look]) {
        most = std::max(most, shades);
        swatches(static_cast<Look>(look), shades);
      }
    if (looks.overlap && !looks.shares)
      text("divided: fused into one op");
    key("idle", "idle");
    if (most > 1)
      text("deep to pale: a device's stages, ascending");
    if (looks.labels)
      text("number: microbatch");
    if (looks.shares)
      text("height: share of the time");
    if (looks.critical)
      text("outlined: the critical path");
    if (looks.memory)
      key("memory", looks.limit ? "memory over time, dashed: its limit" : "memory over time");
  }
  std::string out;
  Pixels bottom() const { return y + 20 * pixel; }

private:
  void room(Pixels width) {
    if (x > margin && x + width > right) {
      x = margin;
      y += 20 * pixel;
    }
  }
  void key(llvm::StringRef kind, llvm::StringRef words) {
    room(widthOf(words) + 20 * pixel);
    out += fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"13\" height=\"12\"/>", kind.str(),
                       str(x), str(y + pixel));
    x += 20 * pixel;
    text(words);
  }
  static Pixels widthOf(llvm::StringRef words) { return static_cast<Pixels>(words.size()) * 630; }
  void text(llvm::StringRef words) {
    room(widthOf(words));
    out += line(x, y + 11 * pixel, "key", words);
    x += widthOf(words) + 22 * pixel;
  }
  void swatches(Look look, unsigned shades) {
    const Pixels each = shades > 2 ? 10 * pixel : 14 * pixel;
    room(shades * each + widthOf(info(look).meaning) + 6 * pixel);
    for (unsigned i = 0; i < shades; ++i, x += each)
      out += fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"12\"/>",
                         classOf(look, shades < 2 ? 0 : i * (maxShades - 1) / (shades - 1)), str(x),
                         str(y + pixel), str(each - pixel));
    x += 6 * pixel;
    out += line(x, y + 11 * pixel, "key", info(look).meaning);
    x += widthOf(info(look).meaning) + 22 * pixel;
  }

  const SvgLooks &looks;
  Pixels x = margin, y, right;
};

/// Widths of the schedules' times: all on the scale of the longest, where they count alike.
std::vector<Pixels> widthsOf(llvm::ArrayRef<TimedSchedule> schedules) {
  Pixels widest = 0;
  Rational longest = 0;
  bool comparable = true;
  for (const TimedSchedule &schedule : schedules) {
    widest = std::max(widest, SvgRows::naturalWidth(schedule));
    const Rational shown = SvgRows::shown(schedule);
    longest = std::max(longest, shown);
    comparable &= schedule.costs.ticks == schedules.front().costs.ticks && shown > Rational(0);
  }
  std::vector<Pixels> widths;
  for (const TimedSchedule &schedule : schedules) {
    auto share = comparable ? divide(SvgRows::shown(schedule), longest) : Rational(1);
    auto width = share ? multiply(*share, Rational(widest)) : std::nullopt;
    widths.push_back(width ? std::max<Pixels>(width->floor(), 40 * pixel) : widest);
  }
  return widths;
}

} // namespace

std::string svg(llvm::ArrayRef<TimedSchedule> schedules) {
  const Pixels left = (llvm::any_of(schedules, sharesRows) ? 150 : 116) * pixel;
  const std::vector<Pixels> widths = widthsOf(schedules);
  const Pixels right =
      left + *llvm::max_element(widths) + (llvm::all_of(schedules, sharesRows) ? 0 : SvgRows::peakColumn);

  SvgLooks looks;
  std::string body, names;
  Pixels y = margin;
  for (auto [schedule, width] : llvm::zip_equal(schedules, widths)) {
    names += (names.empty() ? "" : ", ") + schedule.program.name;
    body += caption(schedule, y);
    y += captionHeight(schedule);
    SvgRows rows(schedule, width);
    body += rows.text(left, y, looks);
    y += rows.height();
    for (const std::string &note : notesOf(schedule)) {
      body += line(margin, y + 10 * pixel, "small", note);
      y += noteHeight;
    }
    y += blockGap;
  }
  Legend legend(looks, y - blockGap + 14 * pixel, right);
  const Pixels height = legend.bottom() + 12 * pixel, width = right + margin;

  return fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
                     "height=\"{1}\" role=\"img\" aria-label=\"Timeline of {2}\">\n",
                     str(width), str(height), escaped(names)) +
         style(looks) + "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n" + body + legend.out +
         "</svg>\n";
}

} // namespace sluice
