// The timeline: every op starts as soon as its device is free and all its inputs
// have arrived; nothing else delays it. Where communication is written, its sends and receives run on the
// event graph of their channels, and a device also waits where one of them blocks. Times are whole multiples
// of CostModel::unit. An overlap is one op of its fused duration, a reduction, tied weight or norm of several
// devices ends on all of them once all have reached it, and what is no compute op takes no time.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"
#include "Support/Diagnostics.h"

namespace sluice {

struct Timeline {
  std::vector<int64_t> end; ///< Per op.
  int64_t makespan = 0;     ///< End of the last op.
  /// Per op, where communication is written (else empty): when a send, receive or joint call had all it waits
  /// for, so that the rest of its time is a transfer, and when it was done, which of a started one is not its
  /// end but at the latest that of its wait. Of other ops their end.
  std::vector<int64_t> met, done;

  /// When `op`, or the overlap it belongs to, starts.
  int64_t start(const Program &program, const CostModel &costs, OpId op) const;
};

/// Written communication runs under CostModel::channels; a program whose receives are waited for at their use
/// must have been posted (Passes/PostCells.h). Nothing if the program is stuck (its order is cyclic, or a
/// device never joins a reduction: findings of verify, so none is added here) or if a time leaves 64 bits,
/// which is finding 106. Linear in the ops; beside the result it needs memory per device and stage only.
std::optional<Timeline> simulate(const Program &program, const ProgramIndex &index, const CostModel &costs,
                                 Diagnostics &diagnostics);

} // namespace sluice
