#include "Timeline/SimulationMode.h"

#include <algorithm>

namespace sluice {

static int64_t largest(const StageTable<int64_t> &table) {
  int64_t result = 0;
  for (uint32_t row = 0; row < table.rowCount(); ++row)
    for (uint32_t stage = 0; stage < table.stageCount(); ++stage)
      result = std::max(result, table.inRow(row, stage));
  return result;
}

// No path through the program is longer than all its ops and transfers one after the other.
static bool fitsAnyway(const Program &program, const CostModel &costs) {
  __int128 longest = 0;
  for (const auto *table :
       {&costs.forward, &costs.backward, &costs.backwardInput, &costs.backwardWeight, &costs.recompute})
    longest = std::max<__int128>(longest, largest(*table));
  for (const auto &[pair, duration] : costs.overlapped)
    longest = std::max<__int128>(longest, duration);
  for (const auto *times : {&costs.update, &costs.reduce, &costs.unshard, &costs.reduceTied})
    for (int64_t time : *times)
      longest = std::max<__int128>(longest, time);
  longest = std::max<__int128>(longest, std::max(largest(costs.offload), largest(costs.reload)));
  longest += std::max(largest(costs.activationTransfer), largest(costs.gradientTransfer));
  return longest * (program.size() + 1) <= INT64_MAX;
}

static bool isUniform(const CostModel &costs) {
  for (const auto *table : {&costs.forward, &costs.backward, &costs.backwardInput, &costs.backwardWeight,
                            &costs.recompute, &costs.activationTransfer, &costs.gradientTransfer})
    if (table->rowCount() > 1)
      return false;
  return true;
}

SimulationMode simulationMode(const Program &program, const CostModel &costs) {
  if (costs.laneCount > 0)
    return SimulationMode::Shared;
  return isUniform(costs) && program.skips.empty() && fitsAnyway(program, costs) ? SimulationMode::Fast
                                                                                 : SimulationMode::Checked;
}

} // namespace sluice
