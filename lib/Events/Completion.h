// Whether a program completes under given rules, and if not, its shortest cycle of waits. Timing-free: device
// programs have no choices, so under one set of rules every execution completes or none does.
#pragma once

#include "Events/WaitCycle.h"

#include <optional>

namespace sluice {

/// Nothing if every device reaches its end. The cycle is empty if nothing but missing partners, starts or
/// calls holds the program up. Every send and receive has a peer. Linear in ops while nothing is stuck.
std::optional<WaitCycle> stuckUnder(const Program &program, const ChannelRules &rules);

/// The least eager depth under which a program completes that does so under `rules` with unbounded channels:
/// models are ordered, so a binary search finds it. At least 1.
uint32_t leastDepth(const Program &program, ChannelRules rules);

} // namespace sluice
