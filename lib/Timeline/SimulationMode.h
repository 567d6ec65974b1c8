// What a simulation has to look at: costs decide, so that simple ones pay for nothing else. Private to
// lib/Timeline.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"

namespace sluice {

enum class SimulationMode : uint8_t {
  Fast,    ///< Costs that no microbatch changes, no skip edges, and sums that cannot overflow.
  Checked, ///< Any costs, but no message delays another.
  Shared,  ///< Some links are shared.
};
SimulationMode simulationMode(const Program &program, const CostModel &costs);

} // namespace sluice
