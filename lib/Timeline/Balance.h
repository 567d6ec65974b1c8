// How evenly the work is spread: the costs that closed forms are written in, which are those of one stage
// for one microbatch where all stages and microbatches cost the same and nothing but their ops takes time;
// and 813 unbalanced-devices, where no order can help since one device has too much to do.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"
#include "Support/Diagnostics.h"

namespace sluice {

/// In CostModel::unit.
struct BalancedCosts {
  int64_t forward = 0, backward = 0, backwardInput = 0, backwardWeight = 0;
  bool hasHalves = false; ///< The halves of a backward are known.
};

/// Nothing if some stage or microbatch differs, transfers take time, or overlaps have a time of their own.
std::optional<BalancedCosts> balancedCosts(const CostModel &costs);

/// 813, at the busiest device, where it works at least 5/4 of the mean: then each step is at least a fifth
/// idle, whatever the order. Only for costs that a model gives. Linear in the ops.
void checkBalance(const Program &program, const CostModel &costs, Diagnostics &diagnostics);

} // namespace sluice
