// How much later each op could end without making the schedule longer, all else starting as soon as it can.
// Ops of slack 0 are critical; the critical path is one chain of them.
#pragma once

#include "Timeline/Binding.h"

namespace sluice {

/// Per op, in CostModel::unit; members of an overlap have equal slack. Empty where
/// communication is written: a later end there may keep another device from its next message. Linear in the
/// ops, 8 bytes an op.
std::vector<int64_t> slacks(const Program &program, const ProgramIndex &index, const CostModel &costs,
                            const Timeline &timeline);

} // namespace sluice
