// The timeline: every op starts as soon as its device is free and all its inputs have arrived; nothing else
// delays it. Messages over a shared link delay each other. Where communication is written, its sends and
// receives run on the event graph of their channels, and a device also waits where one of them blocks; under
// `transfers = blocking` a message occupies both its devices. A collective begins when all its devices have
// come to it and the one before it in its queue is done; it and a move to or from the host hold their device
// up, unless they are started. Times are whole multiples of CostModel::unit; docs/figures.md has the rules.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"
#include "Support/Diagnostics.h"

#include <map>

namespace sluice {

struct Timeline {
  std::vector<int64_t> end; ///< Per op.
  int64_t makespan = 0;     ///< End of the last op.
  /// Per op, where communication is written, or collectives or host moves take time (else empty): when a
  /// send, receive, collective or host move had all it waits for and was under way from there, and when it
  /// was done, which of a started one is not its end but at the latest that of its wait. Of other ops their
  /// end.
  std::vector<int64_t> met, done;
  /// Per op, where links are shared (else empty): when its message over a shared link had arrived. Where
  /// communication is written by the send, else by the op that makes the value. Below 0 for others.
  std::vector<int64_t> arrived;
  /// Per send, where links are shared and communication is written: when its message was ready to go.
  std::vector<int64_t> sent;
  /// Where communication is inferred, for messages to a stage that is no neighbour: as `arrived`.
  std::map<std::pair<OpId, uint32_t>, int64_t> arrivedOverSkips; // by op and receiving stage

  /// When `op`, or the overlap it belongs to, begins to occupy its device. A started op, a wait, and a
  /// written send or receive that does not block its devices begin when they end.
  int64_t start(const Program &program, const CostModel &costs, OpId op) const;
};

/// Written communication runs under CostModel::channels; a program whose receives are waited for at their use
/// must have been posted (Passes/PostCells.h). Nothing if the program is stuck (its order is cyclic, or a
/// device never joins a reduction: findings of verify, so none is added here) or if a time leaves 64 bits,
/// which is finding 106. Linear in the ops; beside the result it needs memory per device and stage only.
std::optional<Timeline> simulate(const Program &program, const ProgramIndex &index, const CostModel &costs,
                                 Diagnostics &diagnostics);

} // namespace sluice
