// `collectives = overlapped`: a reduction goes on beside its device's work. Each unstarted `reduce(s)`
// becomes `start reduce(s)`, and `wait reduce(s)` stands right before the first later op of the device that
// needs its result or touches what it adds up: an update, zero or scale of s, a contribution to s, another
// reduce(s), a reduce_tied of a weight on s, a norm; or at the end of its program. For the timeline alone:
// what a schedule is checked for is what it says. Linear in ops.
#pragma once

#include "IR/Program.h"

namespace sluice {

Program overlapCollectives(const Program &program);

} // namespace sluice
