#include "Timeline/Balance.h"

#include "llvm/ADT/STLExtras.h"

namespace sluice {

std::optional<BalancedCosts> balancedCosts(const CostModel &costs) {
  for (const StageTable<int64_t> *table :
       {&costs.forward, &costs.backward, &costs.backwardInput, &costs.backwardWeight})
    if (table->empty() || !llvm::all_equal(table->all()))
      return std::nullopt;
  for (const StageTable<int64_t> *table : {&costs.activationTransfer, &costs.gradientTransfer})
    if (llvm::any_of(table->all(), [](int64_t time) { return time != 0; }))
      return std::nullopt;
  if (!costs.overlapped.empty() || costs.declaredAt.count("overlapped"))
    return std::nullopt;
  BalancedCosts result{costs.forward.all()[0], costs.backward.all()[0], costs.backwardInput.all()[0],
                       costs.backwardWeight.all()[0]};
  unsigned given = 0;
  for (const char *name : {"backward", "backward_input", "backward_weight"})
    given += costs.declaredAt.count(name) != 0;
  result.hasHalves = costs.isDefault || given >= 2; // two of the three give the third
  return result;
}

} // namespace sluice
