// 311 blocks-ready-work: a receive that stands ahead of work which does not need it, and holds that work up
// until its message has come. Not guessed: the receive is moved in a copy of the program, which is timed
// again, and the time is what the work then starts earlier.
#pragma once

#include "Timeline/Simulate.h"

namespace sluice {

/// Whether the rule has anything to look at: written communication, times given by a model, and a receive, or
/// the wait for one, ahead of work that does not take its value. Linear; at once where nothing is written.
bool mayBlockWork(const Program &program, const CostModel &costs);

/// Call for complete programs without errors. The statements that block longest are tried, few of them; a
/// trial is n log n in the ops.
void checkBlockedWork(const Program &program, const CostModel &costs, const Timeline &timeline,
                      Diagnostics &diagnostics);

} // namespace sluice
