#include "Emit/FiguresLines.h"

#include "Support/Quantity.h"
#include "Support/Words.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

namespace {

class MemoryBlock {
public:
  MemoryBlock(const Program &program, const CostModel &costs, const Figures &figures)
      : program(program), costs(costs), figures(figures) {}

  /// `75.03 GiB of 80 GiB on device 0, 4.97 GiB left, first at 120 ms by backward(0, 0)`, and what is live.
  std::string peakOf(uint32_t device) const {
    const DeviceMemory &memory = figures.memory.devices[device];
    std::string text = formatSize(memory.peakBytes);
    if (!costs.memoryLimit.empty())
      text += " of " + formatSize(costs.memoryLimit[device]);
    text += fmt::format(" on device {}", device);
    if (auto left = figures.headroom(device))
      text += fmt::format(", {} {}", formatSize(std::abs(*left)), *left < 0 ? "too much" : "left");
    text += fmt::format(", first at {}", formatUnits(costs, Rational(memory.peakTime)));
    if (memory.peakOp < program.size())
      text += " by " + str(program.ops[memory.peakOp]);
    text += "\n";
    for (const LiveItem &item : memory.livePeak)
      text += fmt::format("    {:>10}  {}{}{}\n", formatSize(item.bytes),
                          item.count > 1 ? fmt::format("{} ", item.count) : "", name(item.kind).str(),
                          item.stage == noStage ? "" : fmt::format(" of stage {}", item.stage));
    return text;
  }

  std::string fullest() const {
    uint32_t device = 0;
    for (uint32_t d = 1; d < program.devices; ++d)
      if (figures.memory.devices[d].peakBytes > figures.memory.devices[device].peakBytes)
        device = d;
    return "\n  most memory: " + peakOf(device);
  }
  std::string ofAll(const ChartOptions &options) const {
    std::string text = "\n  most memory of each device:\n";
    for (uint32_t d = options.firstDevice; d < std::min(options.deviceEnd, program.devices); ++d)
      text += "  " + peakOf(d);
    return text;
  }
  std::string misfits() const {
    std::vector<uint32_t> devices;
    for (uint32_t d = 0; d < program.devices; ++d)
      if (auto left = figures.headroom(d); left && *left < 0)
        devices.push_back(d);
    return devices.empty() ? "" : fmt::format("  does not fit on {}\n", listed("device", "devices", devices));
  }

private:
  const Program &program;
  const CostModel &costs;
  const Figures &figures;
};

} // namespace

std::string memoryText(const Program &program, const CostModel &costs, const Figures &figures,
                       const ChartOptions &options) {
  if (program.devices == 0 || !figures.missingSetting("peak_memory").empty())
    return "";
  const MemoryBlock block(program, costs, figures);
  return (options.memory ? block.ofAll(options) : block.fullest()) + block.misfits();
}

} // namespace sluice
