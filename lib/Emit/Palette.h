// How every drawing shows a kind of op: one hue a kind, the same in the terminal and in pictures, after Okabe
// and Ito's palette for all kinds of colour vision (https://jfly.uni-koeln.de/color). A device's stages are
// shades of the hue, from deep to pale. What computes is light, so that dark numbers are readable on it; what
// does not is dark and carries none, so that the two are told apart by lightness as well.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"
#include "Timeline/Simulate.h"

#include <array>

namespace sluice {

enum class Look : uint8_t {
  Idle,
  Forward,
  Backward,
  BackwardInput,
  BackwardWeight,
  Recompute,
  Overlap,
  Update,
  Collective, ///< Reductions, tied weights, norms, unshards.
  Transfer,   ///< Between devices.
  Offload,    ///< Between a device and its host, both ways.
};
inline constexpr unsigned lookCount = 11;

struct LookInfo {
  const char *glyph, *ascii; ///< Fills the run of an op on a terminal.
  unsigned terminalColor;    ///< Of 256.
  uint32_t deep, pale;       ///< RGB of a device's first and last stage.
  const char *meaning;
};
const LookInfo &info(Look look);

/// Idle for an op that takes no time.
Look lookOf(const Op &op);
/// Of an op or overlap [first, end).
Look lookOf(const Program &program, OpId first, OpId end);

/// RGB of the `rank`-th of `count` stages of a device: deep, then ever paler.
uint32_t shadeOf(Look look, unsigned rank, unsigned count);
/// A colour mixed with `share` of 100 parts of another.
uint32_t mix(uint32_t color, uint32_t with, unsigned share);

/// Calls `see(first, end, start, stop)` for every op or overlap of `device` that takes time within
/// [from, to], cut off at both.
template <typename See>
void forEachRun(const Program &program, const CostModel &costs, const Timeline &timeline, int64_t from,
                int64_t to, uint32_t device, See see) {
  for (OpId first = program.deviceBegin[device], end; first < program.deviceBegin[device + 1]; first = end) {
    end = program.ops[first].has(OverlapFirst) ? program.groupEnd(first) : first + 1;
    const int64_t start = timeline.start(program, costs, first), stop = timeline.end[first];
    if (start < stop && stop > from && start < to)
      see(first, end, std::max(start, from), std::min(stop, to));
  }
}

} // namespace sluice
