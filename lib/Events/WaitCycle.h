// Why an execution is stuck: the shortest cycle of waits. A cycle is a proof by itself, whatever else
// stands still. Only reached when something is wrong.
#pragma once

#include "Events/Execution.h"

namespace sluice {

/// One device of a cycle of waits: it cannot get past `stands`, while the hop before waits for `needed`, at
/// or behind that place. `stands` waits for the next hop's `needed`; the last hop is followed by the first.
struct WaitHop {
  uint32_t device;
  OpId stands, needed;
};
using WaitCycle = std::vector<WaitHop>;

/// The cycle of fewest hops among what `execution`, which has run, has left standing; of several the one
/// with the lowest device, which comes first in it. Empty if nothing but missing partners, starts or calls
/// (401, 402, 308, 305) holds the program up.
WaitCycle shortestWaitCycle(const Requests &requests, const ChannelRules &rules, const Execution &execution);

} // namespace sluice
