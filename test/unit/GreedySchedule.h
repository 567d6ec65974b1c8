// Schedules made as a greedy runtime would make them: each device takes the op it likes best of those that
// are ready, under a bound on microbatches in flight. Most settle into a block that repeats, of one or
// several microbatches, some never do. Everything follows from the seed.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"

namespace sluice::test {

struct GreedySchedule {
  Program program;
  CostModel costs; ///< Other ones than the order was made under, one for all microbatches.
};
GreedySchedule greedySchedule(uint64_t seed);

/// The same times and sizes, told in a way that makes no use of every microbatch having the same.
CostModel spelledOut(const CostModel &costs, uint32_t microbatches);

} // namespace sluice::test
