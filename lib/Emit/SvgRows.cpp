#include "Emit/SvgRows.h"

#include "Emit/Part.h"
#include "Support/Quantity.h"
#include "Support/Words.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace sluice {

namespace {

/// Width of a digit in hundredths of its font size, in the fonts of screens and papers.
constexpr Pixels digitWidth = 60;
/// Beyond this many ops in a picture, or this few pixels each, rows show shares.
constexpr uint64_t maxRuns = 24'000;
constexpr Pixels leastRun = 2 * pixel;
constexpr Pixels bin = 2 * pixel; ///< Of a row of shares.

/// Smallest of 1, 2, 5 times a power of ten that is at least `least`.
double decimalStep(double least, bool isWhole) {
  double step = 1;
  while (!isWhole && step >= 2 * least && step > 1e-6)
    step /= 10;
  for (;;) {
    for (int digit : {1, 2, 5})
      if (step * digit >= least)
        return step * digit;
    step *= 10;
  }
}

std::string opTitle(const TimedSchedule &schedule, OpId first, OpId end) {
  std::string ops;
  for (OpId op = first; op < end; ++op)
    ops += (op == first ? "" : " & ") + str(schedule.program, op);
  const int64_t start = schedule.timeline.start(schedule.program, schedule.costs, first);
  return fmt::format("{}: {} to {}", ops, formatUnits(schedule.costs, start),
                     formatUnits(schedule.costs, schedule.timeline.end[first]));
}

} // namespace

std::string rect(Pixels x, Pixels y, Pixels w, Pixels h, llvm::StringRef attributes) {
  return fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}" {}/>)", str(x), str(y), str(w), str(h),
                     attributes.str());
}

std::string str(Pixels length) {
  std::string text = fmt::format("{}{}", length < 0 ? "-" : "", std::abs(length) / pixel);
  const Pixels rest = std::abs(length) % pixel;
  if (rest != 0)
    text += rest % 10 == 0 ? fmt::format(".{}", rest / 10) : fmt::format(".{:02}", rest);
  return text;
}

std::string escaped(llvm::StringRef text) {
  std::string result;
  for (char c : text)
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    default:
      result += c;
    }
  return result;
}

std::string classOf(Look look, unsigned shade) {
  static constexpr char letters[] = {'_', 'f', 'b', 'i', 'w', 'r', 'o', 'u', 'c', 't', 'h'};
  return fmt::format("{}{}", letters[static_cast<unsigned>(look)], shade);
}

SvgRows::SvgRows(const TimedSchedule &schedule, Pixels width)
    : schedule(schedule), program(schedule.program), width(width) {
  const Part part(schedule);
  firstDevice = part.firstDevice;
  deviceEnd = part.deviceEnd;
  from = part.from;
  to = part.to;
}

Pixels SvgRows::naturalWidth(const TimedSchedule &schedule) {
  // As wide as gives a mean op of the fullest row room for a label.
  const SvgRows rows(schedule, pixel);
  int64_t most = 1;
  for (uint32_t device = rows.firstDevice; device < rows.deviceEnd; ++device) {
    int64_t runs = 0, busy = 0;
    forEachRun(rows.program, schedule.costs, schedule.timeline, rows.from, rows.to, device,
               [&](OpId, OpId, int64_t start, int64_t stop) {
                 ++runs;
                 busy += stop - start;
               });
    if (busy > 0)
      most = std::max(most, static_cast<int64_t>(static_cast<__int128>(runs) * (rows.to - rows.from) / busy));
  }
  return std::clamp<int64_t>(most > 10'000 ? 10'000 : most * 20, 760, 1680) * pixel;
}

Rational SvgRows::shown(const TimedSchedule &schedule) {
  const SvgRows rows(schedule, pixel);
  return inBaseUnits(schedule.costs, rows.to - rows.from).value_or(0);
}

uint32_t SvgRows::perRow() const {
  const uint32_t shown = deviceEnd - firstDevice, most = schedule.part.maxRows;
  return most == 0 || shown <= most ? 1 : (shown + most - 1) / most;
}
uint32_t SvgRows::rows() const { return (deviceEnd - firstDevice + perRow() - 1) / perRow(); }
Pixels SvgRows::rowHeight() const { return (rows() <= 8 ? 28 : rows() <= 16 ? 24 : 20) * pixel; }
Pixels SvgRows::pitch() const {
  return rowHeight() + (hasMessages() ? messageHeight + 2 * pixel : 0) +
         (hasMemory() ? memoryHeight + 4 * pixel : 0) + 4 * pixel;
}
Pixels SvgRows::height() const { return axisHeight + static_cast<Pixels>(rows()) * pitch(); }

Pixels SvgRows::at(int64_t time) const {
  const __int128 span = to - from;
  return static_cast<Pixels>((2 * static_cast<__int128>(time - from) * width + span) / (2 * span));
}

std::vector<SvgRows::Run> SvgRows::runsOf(uint32_t device) const {
  std::vector<Run> runs;
  forEachRun(program, schedule.costs, schedule.timeline, from, to, device,
             [&](OpId first, OpId end, int64_t start, int64_t stop) {
               runs.push_back({first, end, start, stop, at(start), at(stop) - at(start)});
             });
  return runs;
}

bool SvgRows::needsShares() const {
  if (perRow() > 1)
    return true;
  uint64_t all = 0;
  for (uint32_t device = firstDevice; device < deviceEnd; ++device) {
    uint64_t runs = 0;
    forEachRun(program, schedule.costs, schedule.timeline, from, to, device,
               [&](OpId, OpId, int64_t, int64_t) { ++runs; });
    all += runs;
    if (static_cast<Pixels>(runs) > width / leastRun || all > maxRuns)
      return true;
  }
  return false;
}

unsigned SvgRows::digits() const {
  return static_cast<unsigned>(std::to_string(std::max(program.microbatches, 1u) - 1).size());
}

unsigned SvgRows::fontSize() const {
  // Per op the largest size that fits the longest number.
  std::vector<unsigned> fits;
  for (uint32_t device = firstDevice; device < deviceEnd; ++device)
    for (const Run &run : runsOf(device)) {
      const Pixels room = std::max<Pixels>(run.width - 2 * pixel, 0);
      fits.push_back(static_cast<unsigned>(room / (digitWidth * static_cast<Pixels>(digits()))));
    }
  if (fits.empty())
    return 0;
  llvm::sort(fits);
  for (size_t rank : {fits.size() / 10, fits.size() / 2})
    if (fits[rank] >= 7)
      return std::min(fits[rank], 12u);
  return 0;
}

std::string SvgRows::text(Pixels left, Pixels top, SvgLooks &looks) {
  std::string out;
  const bool shares = needsShares();
  const unsigned font = shares ? 0 : fontSize();
  looks.shares |= shares;
  looks.labels |= font > 0;
  gatherMessages();
  gatherMemory();
  for (uint32_t row = 0; row < rows(); ++row)
    out += rect(left, top + axisHeight + row * pitch(), width, rowHeight(), R"(class="idle")") + "\n";
  out += axis(left, top); // over idle time, below the ops
  Pixels y = top + axisHeight;
  for (uint32_t device = firstDevice; device < deviceEnd; device += perRow(), y += pitch()) {
    const uint32_t end = std::min(device + perRow(), deviceEnd);
    out += label(device, end, y);
    out += shares ? shareRow(device, end, left, y, looks) : opRow(device, left, y, font, looks);
    if (perRow() == 1)
      out += summary(device, left, y);
    Pixels below = y + rowHeight() + 2 * pixel;
    if (hasMessages()) {
      out += messageStrip(device, left, below, looks);
      below += messageHeight + 2 * pixel;
    }
    if (hasMemory())
      out += memoryStrip(device, left, below, looks);
  }
  if (schedule.part.critical && perRow() == 1) {
    out += criticalPath(left, top, shares);
    looks.critical = true;
  }
  return out;
}

SvgRows::AxisUnit SvgRows::axisUnit() const {
  if (schedule.costs.ticks)
    return {"ticks", divide(Rational(1), schedule.costs.unit).value_or(1)};
  const std::string last = formatUnits(schedule.costs, to);
  std::string name = llvm::StringRef(last).split(' ').second.str();
  return {name, divide(unitNamed(name)->value, schedule.costs.unit).value_or(1)};
}

std::string SvgRows::axis(Pixels left, Pixels top) const {
  const AxisUnit unit = axisUnit();
  const Pixels above = top + axisHeight - 10 * pixel, bottom = top + height() - 4 * pixel;
  const double units = static_cast<double>(to - from) / unit.length.toDouble();
  const double step = decimalStep(units / static_cast<double>(width / pixel) * 64, schedule.costs.ticks);
  const double start = static_cast<double>(from) / unit.length.toDouble();
  std::string out;
  for (auto mark = static_cast<int64_t>(std::ceil(start / step - 1e-9));; ++mark) {
    const double value = static_cast<double>(mark) * step, share = (value - start) / units;
    if (!(share <= 1 + 1e-9))
      break;
    const Pixels x = left + std::llround(share * static_cast<double>(width));
    out += fmt::format("<path class=\"grid\" d=\"M{0} {1}V{2}\"/><text class=\"axis\" x=\"{0}\" "
                       "y=\"{3}\">{4:.10g}</text>\n",
                       str(x), str(top + axisHeight - 6 * pixel), str(bottom), str(above), value);
  }
  auto heading = [&](Pixels x, const std::string &text) {
    out += fmt::format("<text class=\"axis unit\" x=\"{}\" y=\"{}\">{}</text>\n", str(x), str(above), text);
  };
  heading(left - 12 * pixel, "time, " + unit.name);
  if (perRow() == 1) {
    heading(left + width + idleColumn, "idle, " + unit.name);
    heading(left + width + peakColumn, "peak act.");
  }
  return out;
}

std::string SvgRows::label(uint32_t device, uint32_t end, Pixels top) const {
  const Pixels middle = top + rowHeight() / 2;
  const std::string name =
      perRow() == 1 ? fmt::format("device {}", device) : fmt::format("devices {} to {}", device, end - 1);
  if (perRow() > 1 || rowHeight() < 24 * pixel)
    return fmt::format("<text class=\"row\" x=\"24\" y=\"{}\">{}</text>\n", str(middle + 4 * pixel), name);
  const std::vector<uint32_t> stages = program.stagesOn(device);
  std::string list = stages.size() == 1 ? "stage " : "stages ";
  for (uint32_t stage : stages)
    list += (stage == stages.front() ? "" : ", ") + std::to_string(stage);
  if (stages.empty() || list.size() > 16)
    list = counted(stages.size(), "stage", "stages");
  return fmt::format("<text class=\"row\" x=\"24\" y=\"{}\">{}</text>"
                     "<text class=\"small\" x=\"24\" y=\"{}\">{}</text>\n",
                     str(middle - pixel), name, str(middle + 10 * pixel), list);
}

std::string SvgRows::summary(uint32_t device, Pixels left, Pixels top) const {
  auto idle = divide(Rational(schedule.figures.times[device].idle), axisUnit().length);
  const std::string y = str(top + rowHeight() / 2 + 4 * pixel);
  return fmt::format("<text class=\"number\" x=\"{}\" y=\"{}\">{}</text>"
                     "<text class=\"number\" x=\"{}\" y=\"{}\">{}</text>\n",
                     str(left + width + idleColumn), y, idle ? idle->decimal(2) : "-",
                     str(left + width + peakColumn), y,
                     schedule.figures.memory.devices[device].peakActivation);
}

std::string SvgRows::box(const Op &op, llvm::ArrayRef<uint32_t> stages, Pixels x, Pixels y, Pixels w,
                         Pixels h, bool hasGap, SvgLooks &looks) const {
  const Look look = lookOf(op);
  const auto count = static_cast<unsigned>(std::min<size_t>(std::max<size_t>(stages.size(), 1), maxShades));
  const auto at = static_cast<size_t>(llvm::lower_bound(stages, op.stage) - stages.begin());
  const auto rank = static_cast<unsigned>(stages.size() <= maxShades ? std::min<size_t>(at, count - 1)
                                                                     : at * maxShades / stages.size());
  unsigned &shades = looks.shades[static_cast<unsigned>(look)];
  shades = std::max(shades, count);
  // A gap between ops as wide as a hair, but never more than half of one.
  const Pixels gap = hasGap ? std::min<Pixels>(pixel, w / 2) : 0;
  const unsigned shade = count == 1 ? 0 : rank * (maxShades - 1) / (count - 1);
  return rect(x, y, w - gap, h, fmt::format("class=\"{}\"", classOf(look, shade)));
}

std::string SvgRows::opRow(uint32_t device, Pixels left, Pixels top, unsigned font, SvgLooks &looks) const {
  std::string out =
      font > 0 ? fmt::format("<g class=\"op\" font-size=\"{}\">\n", font) : "<g class=\"op\">\n";
  const std::vector<uint32_t> stages = program.stagesOn(device);
  for (const Run &run : runsOf(device)) {
    const Pixels parts = run.end - run.first, height = rowHeight() / parts;
    const bool hasGap = run.width >= 4 * pixel;
    looks.overlap |= parts > 1;
    const unsigned size = parts == 1 ? font : std::min(font, static_cast<unsigned>(height / pixel) - 2);
    // A number is written where the longest one would fit, so that none are written by chance.
    const bool hasLabel = size > 0 && run.width - 2 * pixel >= digitWidth * size * digits() &&
                          program.ops[run.first].isCompute();
    out += hasLabel && size != font ? fmt::format("<g font-size=\"{}\">", size) : "<g>";
    out += fmt::format("<title>{}</title>", escaped(opTitle(schedule, run.first, run.end)));
    for (Pixels part = 0; part < parts; ++part) {
      const Op &op = program.ops[run.first + static_cast<OpId>(part)];
      const Pixels y = top + part * height;
      out += box(op, stages, left + run.x, y, run.width, height, hasGap, looks);
      if (hasLabel)
        out += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>", str(left + run.x + (run.width - pixel) / 2),
                           str(y + height / 2 + 36 * size), op.microbatch);
    }
    out += "</g>\n";
  }
  return out + "</g>\n";
}

std::string SvgRows::shareRow(uint32_t device, uint32_t end, Pixels left, Pixels top, SvgLooks &looks) const {
  Shares shares = sharesOf(bin);
  shares.whole *= end - device;
  for (uint32_t member = device; member < end; ++member)
    for (const Run &run : runsOf(member))
      for (OpId op = run.first; op < run.end; ++op)
        addShare(shares, lookOf(program.ops[op]), run.start, run.stop, run.end - run.first);
  return sharePaths(shares, bin, left, top, rowHeight(), looks);
}

SvgRows::Shares SvgRows::sharesOf(Pixels bin) const {
  return {std::vector<std::array<__int128, lookCount>>(static_cast<size_t>(std::max(width / bin, Pixels(1)))),
          to - from};
}

void SvgRows::addShare(Shares &shares, Look look, int64_t start, int64_t stop, int64_t part) const {
  const __int128 span = to - from, bins = static_cast<__int128>(shares.time.size());
  const __int128 first = (start - from) * bins, last = (stop - from) * bins;
  for (__int128 b = first / span; b * span < last; ++b)
    shares.time[static_cast<size_t>(b)][static_cast<unsigned>(look)] +=
        (std::min(last, (b + 1) * span) - std::max(first, b * span)) / part;
}

std::string SvgRows::sharePaths(const Shares &shares, Pixels bin, Pixels left, Pixels top, Pixels height,
                                SvgLooks &looks) const {
  const size_t bins = shares.time.size();
  std::vector<Pixels> floor(bins, 0);
  std::string out;
  for (unsigned look = 1; look < lookCount; ++look) {
    std::string path;
    for (size_t b = 0, next; b < bins; b = next) {
      auto heightOf = [&](size_t i) {
        return static_cast<Pixels>(shares.time[i][look] * height / shares.whole);
      };
      const Pixels tall = heightOf(b), base = floor[b];
      for (next = b; next < bins && heightOf(next) == tall && floor[next] == base; ++next)
        ;
      for (size_t i = b; i < next; ++i)
        floor[i] += tall;
      if (tall > 0)
        path += fmt::format("M{} {}h{}v{}h-{}z", str(left + static_cast<Pixels>(b) * bin),
                            str(top + height - base - tall), str(static_cast<Pixels>(next - b) * bin),
                            str(tall), str(static_cast<Pixels>(next - b) * bin));
    }
    if (path.empty())
      continue;
    looks.shades[look] = std::max(looks.shades[look], 1u);
    out += fmt::format("<path class=\"{}\" d=\"{}\"/>\n", classOf(static_cast<Look>(look), 0), path);
  }
  return out;
}

} // namespace sluice
