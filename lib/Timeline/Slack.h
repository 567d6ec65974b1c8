// How much later each op could end without making the schedule longer, all else starting as soon as it can.
// Ops of slack 0 are critical; the critical path is one chain of them.
#pragma once

#include "Timeline/Binding.h"

namespace sluice {

/// Per op, in CostModel::unit; members of an overlap, and of a group of sends and receives, have equal slack.
/// Where communication is written it is exact on the event graph of the channels. Empty where some link is
/// shared: a transfer that is later lets another go first. Linear in the ops, 8 bytes an op.
std::vector<int64_t> slacks(const Program &program, const ProgramIndex &index, const CostModel &costs,
                            const Timeline &timeline);

} // namespace sluice
