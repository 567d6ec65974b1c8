// What it takes to move an output or a gradient to another device, and over which link and lane it goes.
#include "Elaborate/CostEvaluator.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

bool CostEvaluator::isComputed(uint32_t which) const {
  return which != CheckedLink::none && file.settings[which].value != noNode &&
         file.code.nodes[file.settings[which].value].op != NodeOp::Constant;
}

std::optional<CostEvaluator::Moving> CostEvaluator::moving(const CheckedLink &link) {
  Moving result;
  if (link.latency != CheckedLink::none) {
    auto time = value(file.settings[link.latency], {}, timeDimension);
    if (!time)
      return std::nullopt;
    result.latency = *time;
  }
  if (link.bandwidth == CheckedLink::none)
    return result;
  const CheckedSetting &bandwidth = file.settings[link.bandwidth];
  auto speed = value(bandwidth, {}, bandwidthDimension);
  if (!speed)
    return std::nullopt;
  if (speed->num == 0) {
    diagnostics.report(Rule::ValueOutOfRange, bandwidth.span, {{"what", "a bandwidth of 0 moves nothing"}});
    return fail();
  }
  // Bandwidth counts nanoseconds, so a file in ticks cannot use one.
  if (!firstTime.isValid())
    firstTime = bandwidth.span;
  if (firstTick.isValid()) {
    diagnostics
        .report(Rule::UnlikeDimensions, bandwidth.span,
                {{"operation", "use ticks and seconds in one file"}, {"values", "a bandwidth is per second"}})
        .notes.push_back({"ticks are used here", firstTick, {}, {}});
    return fail();
  }
  result.timePerByte = *divide(Rational(1), *speed);
  return result;
}

std::optional<Rational> CostEvaluator::timeToMove(const Moving &moving, int64_t bytes, Span span,
                                                  llvm::function_ref<std::string()> what) {
  auto service = multiply(moving.timePerByte, Rational(bytes));
  auto total = service ? add(*service, moving.latency) : std::nullopt;
  if (total)
    return total;
  if (!failed)
    diagnostics.report(Rule::ValueOutOfRange, span, {{"what", fmt::format("{} overflows", what())}});
  return fail();
}

uint32_t CostEvaluator::addLinkKind(const CheckedLink &link) {
  costs.links.push_back({link.name, link.sharing, link.span});
  return static_cast<uint32_t>(costs.links.size() - 1);
}

/// The lane that transfers from one device to another take: of all with the same value of `lane`, else their
/// own.
std::optional<uint32_t> CostEvaluator::laneOf(uint32_t link, uint32_t from, uint32_t to) {
  const CheckedLink &declared = file.cluster->links[link];
  if (declared.sharing == Sharing::No)
    return noLane;
  std::array<int64_t, 3> key{from, to, 0};
  if (declared.lane != CheckedLink::none) {
    const std::string what = fmt::format("the lane of {} from device {} to {}", declared.name, from, to);
    auto shared = evaluator.evalInteger(file.settings[declared.lane].value, what);
    if (!shared)
      return fail();
    key = {*shared, -1, 0};
  }
  key[2] = link;
  return lanes.try_emplace(key, static_cast<uint32_t>(lanes.size())).first->second;
}

/// The first link that takes the pair; failed without one.
const CostEvaluator::Way *CostEvaluator::wayOf(uint32_t from, uint32_t to) {
  auto [entry, isNew] = ways.try_emplace({from, to});
  Way &way = entry->second;
  if (!isNew)
    return &way;
  for (uint32_t i = 0; i < file.cluster->links.size(); ++i) {
    const CheckedLink &link = file.cluster->links[i];
    if (link.parameters.size() == 2) {
      evaluator.set(link.parameters[0], static_cast<int64_t>(from));
      evaluator.set(link.parameters[1], static_cast<int64_t>(to));
    }
    if (link.condition != noNode) {
      const size_t lists = evaluator.listMark();
      auto holds = evaluator.evalBoolean(link.condition, fmt::format("`when` of {}", link.name));
      evaluator.releaseLists(lists);
      if (!holds)
        return fail(), nullptr;
      if (!*holds)
        continue;
    }
    auto moving = this->moving(link);
    auto lane = moving ? laneOf(i, from, to) : std::nullopt;
    if (!lane)
      return nullptr;
    way = {*moving, static_cast<uint32_t>(costs.routes.size())};
    costs.routes.push_back({i, *lane, 0});
    routeLatency.push_back(moving->latency);
    return &way;
  }
  return &way;
}

void CostEvaluator::noWay(uint32_t from, uint32_t to, const Op &op) {
  if (failed)
    return;
  const std::vector<CheckedLink> &links = file.cluster->links;
  Finding &finding = diagnostics.report(
      Rule::ValueMissing, links.back().span,
      {{"figure", fmt::format("the transfer of {} from device {} to device {}", str(op), from, to)},
       {"setting", fmt::format("a link whose `when` holds for a = {}, b = {}", from, to)}});
  finding.device = from;
  finding.op = str(op);
  finding.fix.message = "end with a `link { ... }` without `when`, for all other pairs";
  failed = true;
}

CostEvaluator::Trip CostEvaluator::trip(uint32_t from, uint32_t to, const Op &op, int64_t bytes) {
  // Where the program has no such op at all nothing is sent, so no link is missed.
  const bool isSent = op.kind == OpKind::Forward ? isUsed(OpKind::Forward)
                                                 : isUsed(OpKind::Backward) || isUsed(OpKind::BackwardInput);
  const Way *way = from == to ? nullptr : wayOf(from, to);
  if (!way || way->route == noRoute) {
    if (way && isSent)
      noWay(from, to, op);
    return {};
  }
  const CheckedLink &link = file.cluster->links[costs.routes[way->route].link];
  auto time = timeToMove(way->moving, bytes, link.span,
                         [&] { return fmt::format("the transfer time of stage {}", op.stage); });
  return time ? Trip{*time, way->route} : Trip{};
}

void CostEvaluator::evaluateTransfers() {
  activationTransfer = gradientTransfer = zeros();
  if (!file.cluster || file.cluster->links.empty()) {
    skipTransfer.assign(program.skips.size(), Rationals(std::vector<Rational>(2)));
    return;
  }
  const std::vector<CheckedLink> &links = file.cluster->links;
  costs.declaredAt["link"] = links[0].span;
  for (uint32_t i = 0; i < links.size(); ++i) {
    addLinkKind(links[i]);
    // A latency that is worked out is taken at its word where it is 0, as that of a link within a node.
    if (isComputed(links[i].latency))
      costs.declaredAt[fmt::format("link {} latency", i)] = file.settings[links[i].latency].span;
  }
  evaluateChainTransfers();
  evaluateSkipTransfers();
  costs.laneCount = static_cast<uint32_t>(lanes.size());
}

/// What makes the gradients that are sent.
static Op gradientOf(bool hasWhole, uint32_t stage, uint32_t m) {
  return {hasWhole ? OpKind::Backward : OpKind::BackwardInput, 0, static_cast<uint16_t>(stage), m};
}

void CostEvaluator::evaluateChainTransfers() {
  struct Row {
    std::vector<Rational> activation, gradient;
    std::vector<uint32_t> activationRoute, gradientRoute;
  };
  // Rows repeat with the rows of placement and boundary, so each pair of those is computed once.
  std::map<std::pair<uint32_t, uint32_t>, Row> rows;
  Rationals activations, gradients;
  const bool isUniform = program.placement.rowCount() == 1 && costs.boundary.rowCount() == 1;
  for (uint32_t m = 0; m < (isUniform ? 1 : program.microbatches) && !failed; ++m) {
    auto [entry, isNew] = rows.try_emplace({program.placement.row(m), costs.boundary.row(m)});
    Row &row = entry->second;
    if (isNew) {
      row.activation = row.gradient = std::vector<Rational>(program.stages);
      row.activationRoute = row.gradientRoute = std::vector<uint32_t>(program.stages, noRoute);
      for (uint32_t s = 0; s + 1 < program.stages && !failed; ++s) {
        const uint32_t here = program.deviceOf(s, m), there = program.deviceOf(s + 1, m);
        const int64_t bytes = costs.boundary.at(s, m);
        const Op forward{OpKind::Forward, 0, static_cast<uint16_t>(s), m};
        const Trip ahead = trip(here, there, forward, bytes),
                   back = trip(there, here, gradientOf(isUsed(OpKind::Backward), s + 1, m), bytes);
        row.activation[s] = ahead.time;
        row.activationRoute[s] = ahead.route;
        row.gradient[s + 1] = back.time;
        row.gradientRoute[s + 1] = back.route;
      }
    }
    activations.addMicrobatch(row.activation);
    gradients.addMicrobatch(row.gradient);
    costs.activationRoute.addMicrobatch(row.activationRoute);
    costs.gradientRoute.addMicrobatch(row.gradientRoute);
  }
  activations.finish();
  gradients.finish();
  costs.activationRoute.finish();
  costs.gradientRoute.finish();
  activationTransfer = std::move(activations);
  gradientTransfer = std::move(gradients);
}

void CostEvaluator::evaluateSkipTransfers() {
  for (size_t i = 0; i < program.skips.size() && !failed; ++i) {
    const SkipEdge &skip = program.skips[i];
    Rationals times;
    StageTable<uint32_t> routes;
    for (uint32_t m = 0; m < program.microbatches && !failed; ++m) {
      const uint32_t here = program.deviceOf(skip.from, m), there = program.deviceOf(skip.to, m);
      const int64_t bytes = costs.skipBoundary[i].at(0, m);
      const Op forward{OpKind::Forward, 0, static_cast<uint16_t>(skip.from), m};
      const Trip ahead = trip(here, there, forward, bytes);
      const Trip back = skip.hasGradient
                            ? trip(there, here, gradientOf(isUsed(OpKind::Backward), skip.to, m), bytes)
                            : Trip{};
      times.addMicrobatch({ahead.time, back.time});
      routes.addMicrobatch({ahead.route, back.route});
    }
    times.finish();
    routes.finish();
    skipTransfer.push_back(std::move(times));
    costs.skipRoute.push_back(std::move(routes));
  }
}

} // namespace sluice
