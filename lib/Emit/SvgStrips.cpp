// What an SVG shows on demand: what is under way below the row of its device, memory over time, and the
// critical path over everything.
#include "Emit/Packing.h"
#include "Emit/SvgRows.h"
#include "Support/Quantity.h"
#include "Timeline/CriticalPath.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

/// Beyond this many messages of one device, or this many at once, its strip shows shares.
static constexpr size_t maxMessages = 3'000;
static constexpr unsigned maxMessageRows = 6;

void SvgRows::gatherMessages() {
  if (!hasMessages())
    return;
  for (const UnderWay &item : underWay(schedule))
    if (item.device >= firstDevice && item.device < deviceEnd && item.end > item.begin && item.end > from &&
        item.begin < to)
      messages.push_back(item);
  llvm::stable_sort(messages, [](const UnderWay &a, const UnderWay &b) {
    return std::pair(a.device, a.begin) < std::pair(b.device, b.begin);
  });
}

static Look lookOf(UnderWay::Kind kind) {
  return kind == UnderWay::Kind::Message      ? Look::Transfer
         : kind == UnderWay::Kind::Collective ? Look::Collective
                                              : Look::Offload;
}

std::string SvgRows::messageStrip(uint32_t device, Pixels left, Pixels top, SvgLooks &looks) const {
  const auto own = llvm::ArrayRef(messages)
                       .drop_while([&](const UnderWay &m) { return m.device < device; })
                       .take_while([&](const UnderWay &m) { return m.device == device; });
  std::string out = fmt::format("<text class=\"small unit\" x=\"{}\" y=\"{}\">under way</text>\n",
                                str(left - 6 * pixel), str(top + messageHeight - 3 * pixel));
  Packing packing;
  std::vector<unsigned> rowOf;
  for (const UnderWay &item : own)
    rowOf.push_back(packing.place(item.begin, item.end));
  const unsigned rows = std::max(packing.rows(), 1u);
  if (own.size() > maxMessages || rows > maxMessageRows) {
    Shares shares = sharesOf(2 * pixel);
    shares.whole *= rows;
    for (const UnderWay &item : own)
      addShare(shares, lookOf(item.kind), std::max(item.begin, from), std::min(item.end, to), 1);
    return out + sharePaths(shares, 2 * pixel, left, top, messageHeight, looks);
  }
  const Pixels height = messageHeight / rows;
  out += "<g class=\"under-way\">\n";
  for (auto [item, row] : llvm::zip_equal(own, rowOf)) {
    const Pixels x = at(std::max(item.begin, from)), stop = at(std::min(item.end, to));
    const Look look = lookOf(item.kind);
    looks.shades[static_cast<unsigned>(look)] = std::max(looks.shades[static_cast<unsigned>(look)], 1u);
    // As thin as half a pixel, so that none is overlooked.
    out += fmt::format(
        "<g><title>{}: {} to {}{}</title>{}</g>\n", escaped(str(program, item)),
        formatUnits(schedule.costs, item.begin), formatUnits(schedule.costs, item.end),
        item.begin > item.ready ? ", queued for " + formatUnits(schedule.costs, item.begin - item.ready) : "",
        rect(left + x, top + row * height, std::max<Pixels>(stop - x, pixel / 2),
             height - (rows > 1 ? pixel / 2 : 0), fmt::format("class=\"{}\"", classOf(look, 0))));
  }
  return out + "</g>\n";
}

void SvgRows::gatherMemory() {
  if (!hasMemory())
    return;
  inBytes = schedule.figures.missingSetting("peak_memory").empty();
  std::optional<Versions> versions;
  if (schedule.costs.asynchronous)
    versions = versionsOf(program);
  for (uint32_t device = firstDevice; device < deviceEnd; ++device) {
    memory.push_back(memoryCurve(program, schedule.index, schedule.costs, schedule.timeline, device,
                                 versions ? &*versions : nullptr));
    for (const MemoryPoint &point : memory.back())
      mostMemory = std::max<int64_t>(mostMemory, inBytes ? point.bytes : point.activations);
  }
  // A limit that is near is worth its room.
  const int64_t held = mostMemory;
  for (uint32_t device = firstDevice; inBytes && device < deviceEnd; ++device)
    if (!schedule.costs.memoryLimit.empty() && schedule.costs.memoryLimit[device] / 3 <= held / 2)
      mostMemory = std::max(mostMemory, schedule.costs.memoryLimit[device]);
}

std::string SvgRows::memoryText(int64_t value) const {
  return inBytes ? formatSize(value) : fmt::format("{} act.", value);
}

std::string SvgRows::memoryStrip(uint32_t device, Pixels left, Pixels top, SvgLooks &looks) const {
  looks.memory = true;
  const Pixels floor = top + memoryHeight;
  auto heightOf = [&](int64_t value) {
    return static_cast<Pixels>(static_cast<__int128>(value) * memoryHeight / mostMemory);
  };
  std::string path = fmt::format("M{} {}", str(left), str(floor));
  int64_t drawn = -1, peak = 0;
  auto step = [&](Pixels x, int64_t value) {
    if (value != drawn)
      path += fmt::format("H{}V{}", str(left + x), str(floor - heightOf(value)));
    drawn = value;
    peak = std::max(peak, value);
  };
  // Points that share half a pixel show their highest; then what holds.
  constexpr Pixels cell = pixel / 2;
  Pixels x = 0;
  int64_t highest = 0, last = 0;
  auto leave = [&](Pixels next) {
    step(x, highest);
    if (last != highest && x + cell < next)
      step(x + cell, last);
  };
  for (const MemoryPoint &point : memory[device - firstDevice]) {
    if (point.time >= to)
      break;
    const int64_t value = inBytes ? point.bytes : point.activations;
    const Pixels place = point.time <= from ? 0 : at(point.time) / cell * cell;
    if (place > x)
      leave(place);
    highest = place > x || point.time <= from ? value : std::max(highest, value);
    last = value;
    x = place;
  }
  leave(width);
  path += fmt::format("H{}V{}z", str(left + width), str(floor));
  std::string out = fmt::format("<path class=\"memory\" d=\"{}\"><title>memory of device {}: at most {}"
                                "</title></path>\n",
                                path, device, memoryText(peak));
  out += fmt::format("<text class=\"small unit\" x=\"{}\" y=\"{}\">memory</text>"
                     "<text class=\"small unit\" x=\"{}\" y=\"{}\">{}</text>\n",
                     str(left - 6 * pixel), str(floor - 6 * pixel), str(left + width + peakColumn),
                     str(floor - 6 * pixel), memoryText(peak));
  const auto &limits = schedule.costs.memoryLimit;
  if (inBytes && !limits.empty() && limits[device] <= mostMemory) {
    looks.limit = true;
    out += fmt::format("<path class=\"limit\" d=\"M{} {}h{}\"/>\n", str(left),
                       str(floor - heightOf(limits[device])), str(width));
  }
  return out;
}

std::string SvgRows::criticalPath(Pixels left, Pixels top, bool shares) const {
  std::string out, line;
  bool isBroken = true; // no step before it is shown
  uint32_t before = noDevice;
  for (const CriticalStep &step :
       sluice::criticalPath(program, schedule.index, schedule.costs, schedule.timeline)) {
    if (step.start == step.end)
      continue;
    const uint32_t device = program.deviceOf(step.op);
    if (device < firstDevice || device >= deviceEnd || step.end <= from || step.start >= to) {
      isBroken = true;
      continue;
    }
    const Pixels row = top + axisHeight + static_cast<Pixels>(device - firstDevice) * pitch();
    const Pixels x = left + at(std::max(step.start, from)), stop = left + at(std::min(step.end, to));
    const Pixels middle = row + rowHeight() / 2;
    if (shares) {
      line += fmt::format("{}{} {}H{}", isBroken ? "M" : "L", str(x), str(middle), str(stop));
    } else {
      out += rect(x, row, std::max<Pixels>(stop - x - pixel, pixel / 2), rowHeight(), R"(class="critical")") +
             "\n";
      if (!isBroken && device != before)
        line += fmt::format("L{} {}", str(x), str(middle));
      line += fmt::format("M{} {}", str(stop - pixel), str(middle));
    }
    isBroken = false;
    before = device;
  }
  return out + (line.empty() ? "" : fmt::format("<path class=\"critical\" d=\"{}\"/>\n", line));
}

} // namespace sluice
