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

std::optional<MemoryFigures> memoryFigures(const Program &program, const ProgramIndex &index,
                                           const CostModel &costs, const Timeline &timeline,
                                           Diagnostics &diagnostics, const Versions *versions) {
  MemoryFigures figures;
  figures.inFlight.resize(program.stages);
  MemoryWalk walk(program, index, costs, timeline, versions);
  for (uint32_t device = 0; device < program.devices; ++device) {
    figures.devices.push_back(walk.peaksOf(device));
    walk.raiseInFlight(figures.inFlight);
    if (figures.devices.back().peakBytes > 0)
      figures.devices.back().livePeak = walk.liveAtPeak(device);
    if (!walk.hasOverflowed())
      continue;
    diagnostics.report(Rule::ValueOutOfRange, program.span,
                       {{"what", fmt::format("what is live on device {} of {} overflows 2^63 - 1 bytes",
                                             device, program.name)}});
    return std::nullopt;
  }
  return figures;
}

} // namespace sluice
