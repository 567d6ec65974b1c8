#include "Timeline/Balance.h"

#include "Timeline/Figures.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

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
  if (hasOtherWork(costs)) // updates, collectives, the host, or transfers that occupy devices
    return std::nullopt;
  BalancedCosts result{costs.forward.all()[0], costs.backward.all()[0], costs.backwardInput.all()[0],
                       costs.backwardWeight.all()[0]};
  unsigned given = 0;
  for (const char *name : {"backward", "backward_input", "backward_weight"})
    given += costs.declaredAt.count(name) != 0;
  result.hasHalves = costs.isDefault || given >= 2; // two of the three give the third
  return result;
}

/// What a device does by itself. Collectives and moves to the host can go on beside it, whatever the order.
static bool isWork(const Op &op) { return op.isCompute() || op.kind == OpKind::Update; }

/// In CostModel::unit; in 128 bits, as no timeline says that it fits.
static __int128 workOf(const Program &program, const CostModel &costs, uint32_t device) {
  __int128 work = 0;
  for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1];) {
    const OpId end = program.ops[id].has(OverlapFirst) ? program.groupEnd(id) : id + 1;
    if (isWork(program.ops[id]))
      work += durationOfGroup(costs, &program.ops[id], end - id);
    id = end;
  }
  return work;
}

/// The stage with most of the work of a device, overlaps counted by member, and its work.
static std::pair<uint32_t, __int128> heaviestStage(const Program &program, const CostModel &costs,
                                                   uint32_t device) {
  std::vector<__int128> work(program.stages);
  for (const Op &op : program.opsOf(device))
    if (isWork(op))
      work[op.stage] += durationOf(costs, op);
  auto most = llvm::max_element(work);
  return {static_cast<uint32_t>(most - work.begin()), *most};
}

void checkBalance(const Program &program, const CostModel &costs, Diagnostics &diagnostics) {
  if (costs.isDefault || program.devices < 2)
    return;
  uint32_t busiest = 0;
  __int128 most = 0, sum = 0;
  for (uint32_t device = 0; device < program.devices; ++device) {
    const __int128 work = workOf(program, costs, device);
    sum += work;
    if (work > most) {
      most = work;
      busiest = device;
    }
  }
  if (most == 0 || most > INT64_MAX || 4 * most * program.devices < 5 * sum)
    return;
  auto mean = Rational::make(sum, program.devices);
  if (!mean)
    return;
  const std::string longest = formatUnits(costs, Rational(static_cast<int64_t>(most)));
  const auto [stage, work] = heaviestStage(program, costs, busiest);
  Finding &finding = diagnostics.report(Rule::UnbalancedDevices, program.programSpan[busiest],
                                        {{"device", std::to_string(busiest)},
                                         {"time", longest},
                                         {"mean", formatUnits(costs, *mean)},
                                         {"bound", longest}});
  finding.device = busiest;
  finding.fix.message =
      fmt::format("lighten stage {}, which takes {} of it", stage,
                  work <= INT64_MAX ? formatUnits(costs, Rational(static_cast<int64_t>(work))) : "most");
}

} // namespace sluice
