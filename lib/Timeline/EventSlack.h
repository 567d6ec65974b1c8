// Slack where communication is written: the event graph of the channels gone through backwards. Private to
// lib/Timeline.
#pragma once

#include "Timeline/Simulate.h"

namespace sluice {

/// The latest end of each op that leaves the makespan as it is. No link is shared.
std::vector<int64_t> latestEnds(const Program &program, const ProgramIndex &index, const CostModel &costs,
                                const Timeline &timeline);

} // namespace sluice
