// The timeline: every op starts as soon as its device is free and all its inputs
// have arrived; nothing else delays it. Times are whole multiples of CostModel::unit. An overlap is one op
// of its fused duration, a reduction of a stage with copies on several devices ends on all of them once all
// have reached it, and zero, reduce and update take no time.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"
#include "Support/Diagnostics.h"

namespace sluice {

struct Timeline {
  std::vector<int64_t> end; ///< Per op.
  int64_t makespan = 0;     ///< End of the last op.

  /// When `op`, or the overlap it belongs to, starts.
  int64_t start(const Program &program, const CostModel &costs, OpId op) const;
};

/// Nothing if the program is stuck (its order is cyclic, or a device never joins a reduction: findings of
/// verify, so none is added here) or if a time leaves 64 bits, which is finding 106. Linear in the ops;
/// beside the result it needs memory per device and stage only.
std::optional<Timeline> simulate(const Program &program, const ProgramIndex &index, const CostModel &costs,
                                 Diagnostics &diagnostics);

} // namespace sluice
