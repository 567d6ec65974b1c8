// Random programs with everything that few schedules have: started ops and their waits, factors, edges that
// pass over stages, tied weights, groups, phases, and the settings of training and cluster. They are made to
// be written down and read again, not to be legal.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"

#include <cstdint>

namespace sluice::test {

/// `program` with ops and suffixes thrown in; needs a placement.
Program decorated(const Program &program, uint64_t seed);

/// Settings of training and cluster, and what skip edges carry, in no time.
void decorateCosts(const Program &program, CostModel &costs, uint64_t seed);

} // namespace sluice::test
