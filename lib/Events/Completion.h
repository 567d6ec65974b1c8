// Whether a program completes under given rules, and if not, its shortest cycle of waits. Timing-free: device
// programs have no choices, so under one set of rules every execution completes or none does.
#pragma once

#include "Events/WaitCycle.h"

#include <sluice/Schedule.h>

#include <optional>

namespace sluice {

/// Whether every device reaches its end. Every send and receive has a peer. Linear in ops.
bool completesUnder(const Program &program, const ChannelRules &rules);

/// Nothing if every device reaches its end. The cycle is empty if nothing but missing partners, starts or
/// calls holds the program up. Every send and receive has a peer. Linear in ops while nothing is stuck.
std::optional<WaitCycle> stuckUnder(const Program &program, const ChannelRules &rules);

/// The channel models of executors under which a program completes as it is run: all where early places its
/// communication, else each is tried, with the file's channel key but where the model has its own (one queue
/// for each pair of devices, the rules of `nccl`). An executor's transports move what is started at once,
/// take the members of a group one by one and connect before they begin, whatever the file says of others.
runtime::ChannelModels verifiedModels(const Program &program, const struct CostModel &costs);

/// The least eager depth under which a program completes that does so under `rules` with unbounded channels:
/// models are ordered, so a binary search finds it. At least 1.
uint32_t leastDepth(const Program &program, ChannelRules rules);

} // namespace sluice
