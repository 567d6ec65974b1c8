#include "Timeline/ScaledCosts.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace sluice {

using Times = StageTable<int64_t>;

namespace {

/// Visits every time of a cost model: tables by stage and microbatch, and lists.
template <typename Costs, typename Table, typename List>
void eachTime(Costs &costs, Table visitTable, List visitList) {
  for (auto *table :
       {&costs.forward, &costs.backward, &costs.backwardInput, &costs.backwardWeight, &costs.recompute,
        &costs.activationTransfer, &costs.gradientTransfer, &costs.offload, &costs.reload})
    visitTable(*table);
  for (auto &table : costs.skipTransfer)
    visitTable(table);
  for (auto *list : {&costs.update, &costs.reduce, &costs.unshard, &costs.reduceTied})
    visitList(*list);
}

} // namespace

static bool multiplyTimes(CostModel &costs, int64_t factor) {
  bool fits = true;
  auto times = [&](int64_t time) {
    int64_t product = 0;
    fits &= !__builtin_mul_overflow(time, factor, &product);
    return product;
  };
  eachTime(
      costs, [&](Times &table) { table = table.mapped(times); },
      [&](std::vector<int64_t> &list) { llvm::transform(list, list.begin(), times); });
  for (auto &[pair, time] : costs.overlapped)
    time = times(time);
  for (std::vector<Route> *routes : {&costs.routes, &costs.hostRoutes})
    for (Route &route : *routes)
      route.latency = times(route.latency);
  return fits;
}

std::optional<CostModel> inSmallerUnit(const CostModel &costs, int64_t factor) {
  auto unit = divide(costs.unit, Rational(factor));
  CostModel result = costs;
  if (!unit || !multiplyTimes(result, factor))
    return std::nullopt;
  result.unit = *unit;
  return result;
}

ScaledCosts::ScaledCosts(const Program &program, const CostModel &costs)
    : program(program), costs(costs), scaled(costs) {
  for (const auto &[pair, time] : costs.overlapped)
    if (pair.first != pair.second)
      multiple = 200;
  fits_ = multiplyTimes(scaled, multiple);
}

/// Row by row, each once; `isFaster` is asked by stage and the row's first microbatch.
template <typename IsFaster> Times ScaledCosts::hastened(const Times &times, IsFaster isFaster) const {
  std::vector<uint32_t> firstOf(times.rowCount(), 0);
  for (uint32_t m = program.microbatches; m-- > 0 && times.rowCount() > 1;)
    firstOf[times.row(m)] = m;
  size_t next = 0; // values are visited in order, row by row
  return times.mapped([&](int64_t time) {
    const size_t at = next++;
    const auto stage = static_cast<uint32_t>(at % times.stageCount());
    return isFaster(stage, firstOf[at / times.stageCount()]) ? faster(time) : time;
  });
}

/// A table of the same values with a row for each microbatch apart, where rows of `times` need not have one
/// row of what decides.
template <typename IsFaster, typename Faster>
static Times apart(const Times &times, uint32_t microbatches, IsFaster isFaster, Faster faster) {
  Times result;
  std::vector<int64_t> row(times.stageCount());
  for (uint32_t m = 0; m < microbatches; ++m) {
    for (uint32_t s = 0; s < row.size(); ++s)
      row[s] = isFaster(s, m) ? faster(times.at(s, m)) : times.at(s, m);
    result.addMicrobatch(row);
  }
  result.finish();
  return result;
}

CostModel ScaledCosts::withFasterStage(uint32_t stage) const {
  CostModel result = scaled;
  auto isOfStage = [&](uint32_t s, uint32_t) { return s == stage; };
  for (Times *table :
       {&result.forward, &result.backward, &result.backwardInput, &result.backwardWeight, &result.recompute})
    *table = hastened(*table, isOfStage);
  for (auto &[pair, time] : result.overlapped) {
    const int members = (pair.first == stage) + (pair.second == stage);
    time = members == 2 ? faster(time) : members == 1 ? time / 200 * 199 : time;
  }
  if (stage < result.update.size())
    result.update[stage] = faster(result.update[stage]);
  return result;
}

Times ScaledCosts::overLink(const Times &times, const StageTable<uint32_t> &routes, uint32_t link) const {
  if (times.empty())
    return times;
  auto isOver = [&](uint32_t s, uint32_t m) {
    return (routes.empty() ? noLink : linkOf(routes.at(s, m))) == link;
  };
  if (routes.rowCount() <= 1)
    return hastened(times, isOver);
  return apart(times, program.microbatches, isOver, [&](int64_t time) { return faster(time); });
}

bool ScaledCosts::hostIsFaster(uint32_t stage, uint32_t microbatch, bool isBack, uint32_t link) const {
  const uint32_t device = program.deviceOf(stage, microbatch);
  const uint32_t own =
      costs.hostRoutes.empty() || device == noDevice ? noLink : costs.hostRoutes[2 * device + isBack].link;
  return own == link;
}

CostModel ScaledCosts::withFasterLink(uint32_t link) const {
  CostModel result = scaled;
  result.activationTransfer = overLink(scaled.activationTransfer, costs.activationRoute, link);
  result.gradientTransfer = overLink(scaled.gradientTransfer, costs.gradientRoute, link);
  for (size_t i = 0; i < scaled.skipTransfer.size(); ++i)
    result.skipTransfer[i] =
        overLink(scaled.skipTransfer[i],
                 i < costs.skipRoute.size() ? costs.skipRoute[i] : StageTable<uint32_t>(), link);
  for (bool isBack : {false, true}) {
    Times &table = isBack ? result.reload : result.offload;
    auto isFaster = [&](uint32_t s, uint32_t m) { return hostIsFaster(s, m, isBack, link); };
    if (table.empty())
      continue;
    table = program.placement.rowCount() <= 1
                ? hastened(table, isFaster)
                : apart(table, program.microbatches, isFaster, [&](int64_t time) { return faster(time); });
  }
  for (std::vector<Route> *routes : {&result.routes, &result.hostRoutes})
    for (Route &route : *routes)
      if (route.link == link)
        route.latency = faster(route.latency);
  return result;
}

CostModel ScaledCosts::withFasterCollectives() const {
  CostModel result = scaled;
  for (std::vector<int64_t> *list : {&result.reduce, &result.unshard, &result.reduceTied})
    for (int64_t &time : *list)
      time = faster(time);
  return result;
}

bool ScaledCosts::hasCollectives() const {
  auto takesTime = [](int64_t time) { return time != 0; };
  return llvm::any_of(costs.reduce, takesTime) || llvm::any_of(costs.unshard, takesTime) ||
         llvm::any_of(costs.reduceTied, takesTime);
}

std::vector<uint32_t> ScaledCosts::links() const {
  std::vector<uint32_t> result;
  auto collect = [&](const std::vector<Route> &routes) {
    for (const Route &route : routes)
      result.push_back(route.link);
  };
  auto takesTime = [](int64_t time) { return time != 0; };
  auto isTimed = [&](const Times &table) { return llvm::any_of(table.all(), takesTime); };
  const bool hasTransfers = isTimed(costs.activationTransfer) || isTimed(costs.gradientTransfer) ||
                            llvm::any_of(costs.skipTransfer, isTimed);
  const bool hasHost = isTimed(costs.offload) || isTimed(costs.reload);
  if (hasTransfers)
    collect(costs.routes);
  if (hasHost)
    collect(costs.hostRoutes);
  if ((hasTransfers && costs.routes.empty()) || (hasHost && costs.hostRoutes.empty()))
    result.push_back(noLink);
  llvm::sort(result);
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

} // namespace sluice
