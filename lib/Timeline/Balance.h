// The costs that closed forms are written in: those of one stage for one microbatch, where all stages and
// microbatches cost the same and nothing but their ops takes time.
#pragma once

#include "IR/CostModel.h"

namespace sluice {

/// In CostModel::unit.
struct BalancedCosts {
  int64_t forward = 0, backward = 0, backwardInput = 0, backwardWeight = 0;
  bool hasHalves = false; ///< The halves of a backward are known.
};

/// Nothing if some stage or microbatch differs, transfers take time, or overlaps have a time of their own.
std::optional<BalancedCosts> balancedCosts(const CostModel &costs);

} // namespace sluice
