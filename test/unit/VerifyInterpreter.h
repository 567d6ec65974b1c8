// A slow interpreter of device programs that knows nothing of lib/Verify: it executes every op on maps
// and lists, and a program is legal if it gets through without an accident and every microbatch has
// trained every stage exactly once. Synchronous programs; random state and overlaps are not modelled.
#pragma once

#include "IR/Program.h"

#include <optional>
#include <string>

namespace sluice::test {

/// What goes wrong first; empty if the program is legal.
std::string accidentIn(const Program &program, std::optional<int64_t> replicas);

} // namespace sluice::test
