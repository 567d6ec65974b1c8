// Where the time of each device goes (docs/figures.md). busy + idle is the makespan, and idle is the
// sum of its five parts, exactly. All in CostModel::unit.
#pragma once

#include "Timeline/Binding.h"
#include "Timeline/Steady.h"

namespace sluice {

struct DeviceTimes {
  /// All compute ops, recompute included, updates, collectives and host moves that hold the device up, and
  /// under `transfers = blocking` its transfers.
  int64_t busy = 0;
  int64_t useful = 0; ///< Forwards, backwards and their halves; an overlap counts its fused duration.
  int64_t idle = 0;

  int64_t fill = 0;  ///< Before the first compute op; of a device without one all its idle time.
  int64_t drain = 0; ///< After the last.
  int64_t stallTransfer = 0;
  int64_t imbalance = 0;
  int64_t stallUpstream = 0;

  int64_t spanBegin = 0; ///< First compute start.
  int64_t spanEnd = 0;   ///< Last compute end.
};

/// One entry a device. Every gap between what a device is busy with, from its first compute op to its last,
/// is split along the binding chain of the op that ends it: what lies under a transfer, a collective or a
/// host move, or in a queue for one, is stallTransfer; of the rest, as much as the device works less than the
/// busiest one is imbalance, and what remains stallUpstream.
/// With `repeated` (repeatedParts) a block is looked at once for all that repeat it, which changes nothing.
std::vector<DeviceTimes> deviceTimes(const Program &program, const ProgramIndex &index,
                                     const CostModel &costs, const Timeline &timeline,
                                     const Steady *repeated = nullptr);

} // namespace sluice
