#include "Timeline/Memory.h"

#include "Timeline/MemoryWalk.h"

#include <fmt/format.h>

namespace sluice {

llvm::StringRef name(LiveKind kind) {
  static constexpr const char *names[liveKindCount] = {"saved activations",
                                                       "kept inputs",
                                                       "half-done backwards",
                                                       "received activations",
                                                       "received gradients",
                                                       "outputs",
                                                       "workspace",
                                                       "weights",
                                                       "weight gradients",
                                                       "optimizer state",
                                                       "reserved"};
  return names[static_cast<unsigned>(kind)];
}

static void reportOverflow(const Program &program, uint32_t device, Diagnostics &diagnostics) {
  diagnostics.report(Rule::ValueOutOfRange, program.span,
                     {{"what", fmt::format("what is live on device {} of {} overflows 2^63 - 1 bytes", device,
                                           program.name)}});
}

std::optional<MemoryFigures> memoryFigures(const Program &program, const ProgramIndex &index,
                                           const CostModel &costs, const Timeline &timeline,
                                           Diagnostics &diagnostics, const Versions *versions,
                                           const Steady *repeated) {
  MemoryFigures figures;
  figures.inFlight.resize(program.stages);
  MemoryWalk walk(program, index, costs, timeline, versions, repeated);
  for (uint32_t device = 0; device < program.devices; ++device) {
    figures.devices.push_back(walk.peaksOf(device));
    walk.raiseInFlight(figures.inFlight);
    if (figures.devices.back().peakBytes > 0)
      figures.devices.back().livePeak = walk.liveAtPeak(device);
    if (!walk.hasOverflowed())
      continue;
    reportOverflow(program, device, diagnostics);
    return std::nullopt;
  }
  return figures;
}

std::vector<MemoryPoint> memoryCurve(const Program &program, const ProgramIndex &index,
                                     const CostModel &costs, const Timeline &timeline, uint32_t device,
                                     const Versions *versions) {
  return MemoryWalk(program, index, costs, timeline, versions).curveOf(device);
}

std::vector<MemoryExcess> memoryExcesses(const Program &program, const ProgramIndex &index,
                                         const CostModel &costs, const Timeline &timeline,
                                         Diagnostics &diagnostics, const Versions *versions) {
  std::vector<MemoryExcess> excesses;
  MemoryWalk walk(program, index, costs, timeline, versions);
  for (uint32_t device = 0; device < program.devices && !costs.memoryLimit.empty(); ++device) {
    DeviceMemory memory = walk.peaksOf(device, costs.memoryLimit[device]);
    if (walk.hasOverflowed()) {
      reportOverflow(program, device, diagnostics);
      return {};
    }
    if (memory.peakBytes <= costs.memoryLimit[device])
      continue;
    MemoryExcess excess{device,       0, walk.opAtExcess(), walk.liveAtExcess(device), memory.peakBytes,
                        memory.peakOp};
    for (const LiveItem &item : excess.live)
      excess.bytes += item.bytes;
    if (program.opsOf(device).empty())
      excess.op = excess.peakOp = noOp;
    excesses.push_back(std::move(excess));
  }
  return excesses;
}

} // namespace sluice
