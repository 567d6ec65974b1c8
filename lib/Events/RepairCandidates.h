// The edits that may free a stuck program, from one cycle of waits. Internal to lib/Events.
#pragma once

#include "Events/Moves.h"
#include "Events/Repair.h"

namespace sluice {

/// On one device: the statement it cannot get past, and a later one that its neighbour waits for. Equal: a
/// member of a group that holds the cycle up as a whole.
struct Standing {
  uint32_t device;
  OpId stands, needed;
};

/// Those of a cycle. Where the device stands at the wait for a started post, both the wait and the post that
/// it hangs on may be in the way; if transfers move only in waits, it is the waits that have an order.
std::vector<Standing> standingOn(const Requests &requests, const ChannelRules &rules,
                                 const Execution &execution, const WaitCycle &cycle);

/// An edit of the program at hand, whose ids it has.
struct RepairCandidate {
  RepairEdit edit;
  uint32_t distance; ///< In ops, between the two.
};

/// The nearest places, best first: by distance, then groups, receives moved earlier, all others.
std::vector<RepairCandidate> candidatesOf(const Program &program, const ChannelRules &rules,
                                          llvm::ArrayRef<Standing> standing);
/// All places beyond them that local order leaves, in the same ranking.
std::vector<RepairCandidate> fartherCandidatesOf(const Program &program, llvm::ArrayRef<Standing> standing);

/// Steps towards that, where something between the two keeps one of them from passing the other: each as far
/// as local order lets it go. They free nothing by themselves.
std::vector<RepairCandidate> nearerCandidatesOf(const Program &program, llvm::ArrayRef<Standing> standing);

/// What an edit comes to, a move an instance, no two of them touching the same ops. Empty if local order
/// forbids one, or if a narrower scope means the same.
std::vector<Move> movesOf(const RepairCandidate &candidate, const Program &program);

} // namespace sluice
