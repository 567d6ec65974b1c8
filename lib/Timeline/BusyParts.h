// What a device is busy with: the parts of DeviceTimes::busy, which add up to it exactly. docs/figures.md
// says what each is. In CostModel::unit.
#pragma once

#include "Timeline/Idle.h"

namespace sluice {

struct BusyParts {
  int64_t compute = 0;     ///< Forwards, backwards, halves and overlaps: DeviceTimes::useful.
  int64_t recompute = 0;   ///< Recomputes outside of overlaps.
  int64_t update = 0;      ///< Optimizer updates.
  int64_t collectives = 0; ///< Reductions and gatherings that the device stands at, from their begin.
  int64_t transfers = 0;   ///< Under `transfers = blocking`: its sends and receives.
  int64_t host = 0;        ///< Offloads and reloads that it stands at.

  int64_t sum() const { return compute + recompute + update + collectives + transfers + host; }
};

/// One entry a device, as `times`. Linear in the ops, and in the devices alone where nothing but compute
/// takes time.
std::vector<BusyParts> busyParts(const Program &program, const CostModel &costs, const Timeline &timeline,
                                 llvm::ArrayRef<DeviceTimes> times);

/// Whether ops besides those that compute occupy a device for a time.
bool hasOtherWork(const CostModel &costs);

} // namespace sluice
