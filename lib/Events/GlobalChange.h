// Changes of a whole program, for deadlocks that a few moves do not cure. Internal to lib/Events.
#pragma once

#include "Events/Requests.h"

#include <optional>

namespace sluice {

/// Sends and receives that follow each other, and that block, in one group as far as they may stand in one.
/// Nothing if there are none.
std::optional<Program> groupNeighbours(const Program &program);

/// The communication that `inferred(early)` stands for, in place of the written one. Nothing where the order
/// of the data is cyclic.
std::optional<Program> inferEarly(const Program &program);

/// Messages that are received in the place of another.
uint64_t crossedPairs(const Requests &requests);

} // namespace sluice
