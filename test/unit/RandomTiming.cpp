#include "RandomTiming.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace sluice::slow {

namespace {

using Steps = std::vector<std::vector<Op>>;

Op opOf(OpKind kind, uint32_t stage, uint32_t microbatch = noMicrobatch, unsigned flags = 0) {
  return {kind, static_cast<uint8_t>(flags), static_cast<uint16_t>(stage), microbatch};
}

class Generator {
public:
  Generator(uint64_t seed, const TimingChoice &choice)
      : random(seed * 2654435761u + 12345), choice(choice), schedule(randomSchedule(seed)),
        costs(schedule.costs) {}

  RandomTiming generate() {
    for (Steps &steps : schedule.steps) {
      startReductions(steps);
      gatherWeights(steps);
      offload(steps);
    }
    declareTies();
    callTogether();
    declareSkips();
    chooseLinks();
    chooseRoutes();
    chooseTimes();
    RandomTiming result;
    result.program = schedule.build();
    result.program.skips = skips;
    result.program.ties = ties;
    result.schedule = std::move(schedule);
    return result;
  }

private:
  /// Some values in 0..high, 0 among them.
  std::vector<int64_t> times(size_t count, int64_t high) {
    std::vector<int64_t> values;
    for (size_t i = 0; i < count; ++i)
      values.push_back(random.chance(20) ? 0 : random.between(0, high));
    return values;
  }
  int64_t largest() { return random.chance(15) ? 40 : 1 + random.below(9); }

  /// Starts some reductions; their waits stand anywhere before the stage's update or the end.
  void startReductions(Steps &steps) {
    for (size_t i = 0; i < steps.size(); ++i) {
      const Op op = steps[i].front();
      if (op.kind != OpKind::Reduce || op.isWait() || !random.chance(30))
        continue;
      size_t last = i + 1;
      while (last < steps.size() &&
             std::none_of(
                 steps[last].begin(), steps[last].end(),
                 [&](const Op &next) { return next.stage == op.stage && next.kind >= OpKind::Zero; }))
        ++last;
      steps[i].front().flags |= Started;
      insertAt(steps, i + 1, last, opOf(OpKind::Reduce, op.stage, noMicrobatch, Waits));
    }
  }
  size_t insertAt(Steps &steps, size_t first, size_t last, const Op &op) {
    const size_t at = first + random.below(static_cast<uint32_t>(last - first + 1));
    steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(at), {op});
    return at;
  }

  void gatherWeights(Steps &steps) {
    if (!random.chance(30))
      return;
    for (uint32_t s = 0; s < schedule.stages; ++s) {
      auto usesStage = [&](const std::vector<Op> &step) {
        return std::any_of(step.begin(), step.end(),
                           [&](const Op &op) { return op.isCompute() && op.stage == s; });
      };
      const auto first =
          static_cast<size_t>(std::find_if(steps.begin(), steps.end(), usesStage) - steps.begin());
      if (first == steps.size() || random.chance(30))
        continue;
      const bool isStarted = random.chance(50);
      const size_t at =
          insertAt(steps, 0, first, opOf(OpKind::Unshard, s, noMicrobatch, isStarted ? Started : 0));
      if (isStarted)
        insertAt(steps, at + 1, first + 1, opOf(OpKind::Unshard, s, noMicrobatch, Waits));
    }
  }

  /// Moves some saved activations out and back between their forward and their backward.
  void offload(Steps &steps) {
    if (!random.chance(35))
      return;
    for (uint32_t m = 0; m < schedule.microbatches; ++m)
      for (uint32_t s = 0; s < schedule.stages; ++s) {
        size_t forward = steps.size(), backward = steps.size();
        bool isRebuilt = false;
        for (size_t i = 0; i < steps.size(); ++i)
          for (const Op &op : steps[i])
            if (op.stage == s && op.microbatch == m) {
              if (op.kind == OpKind::Forward)
                forward = i;
              if (op.makesGradient())
                backward = i;
              isRebuilt |= op.has(KeepInput) || op.kind == OpKind::Recompute;
            }
        if (backward == steps.size() || forward >= backward || isRebuilt || !random.chance(50))
          continue;
        size_t at = forward + 1, last = backward;
        for (OpKind kind : {OpKind::Offload, OpKind::Reload}) {
          const bool isStarted = random.chance(50);
          at = insertAt(steps, at, last++, opOf(kind, s, m, isStarted ? Started : 0)) + 1;
          if (isStarted)
            at = insertAt(steps, at, last++, opOf(kind, s, m, Waits)) + 1;
        }
      }
  }

  void declareTies() {
    if (!random.chance(25))
      return;
    TiedWeight tied{"weight", {}, {}};
    for (uint32_t s = 0; s < schedule.stages; ++s)
      if (random.chance(50))
        tied.stages.push_back(s);
    if (!tied.stages.empty())
      ties.push_back(tied);
  }
  /// At the end of all programs, in one order: each tied weight, started or not, and a norm.
  void callTogether() {
    const bool norm = random.chance(20);
    for (uint32_t device = 0; device < schedule.devices; ++device) {
      Steps &steps = schedule.steps[device];
      std::vector<Op> waits;
      for (uint32_t w = 0; w < ties.size(); ++w) {
        auto isHere = [&](uint32_t stage) {
          return std::any_of(schedule.placement.begin(), schedule.placement.end(),
                             [&](const std::vector<uint32_t> &row) { return row[stage] == device; });
        };
        auto stage = std::find_if(ties[w].stages.begin(), ties[w].stages.end(), isHere);
        if (stage == ties[w].stages.end())
          continue;
        const bool isStarted = random.chance(50);
        steps.push_back({opOf(OpKind::ReduceTied, *stage, w, isStarted ? Started : 0)});
        if (isStarted)
          waits.push_back(opOf(OpKind::ReduceTied, *stage, w, Waits));
      }
      if (norm)
        steps.push_back({opOf(OpKind::Norm, 0)});
      for (const Op &wait : waits)
        steps.push_back({wait});
    }
  }

  void declareSkips() {
    for (uint32_t s = 0; choice.skips && s + 2 < schedule.stages; ++s)
      for (uint32_t t = s + 2; t < schedule.stages; ++t)
        if (random.chance(15))
          skips.push_back({s, t, random.chance(70), {}});
  }

  // Links.
  Sharing anySharing() {
    return choice.sharesLanes && random.chance(80) ? random.chance(50) ? Sharing::Fifo : Sharing::Fair
                                                   : Sharing::No;
  }
  void chooseLinks() {
    const uint32_t kinds = random.chance(15) ? 0 : 1 + random.below(3); // 0: no links are declared
    for (uint32_t k = 0; k < kinds; ++k) {
      LinkKind kind;
      kind.name = fmt::format("link {}", k);
      kind.sharing = anySharing();
      costs.links.push_back(kind);
      laneOf.push_back(random.below(6));
      longest.push_back(largest());
    }
    const uint32_t node = 1 + random.below(3), split = random.below(3);
    for (uint32_t a = 0; a < schedule.devices && kinds > 0; ++a)
      for (uint32_t b = 0; b < schedule.devices; ++b) {
        uint32_t k = a / node == b / node ? 0 : 1;
        if (split == 1 && a > b)
          k = 2;
        k = std::min(k, kinds - 1);
        routeOf[{a, b}] = static_cast<uint32_t>(costs.routes.size());
        costs.routes.push_back(routeOver(k, std::array{10 * a + b, a, b, a / 2, 0u, 0u}[laneOf[k]]));
      }
    if (kinds > 0 || random.chance(50))
      chooseHost();
    costs.laneCount = static_cast<uint32_t>(lanes.size());
  }
  Route routeOver(uint32_t k, uint32_t value) {
    Route route;
    route.link = k;
    route.latency = random.chance(40) ? 0 : random.between(0, 5);
    if (costs.links[k].sharing != Sharing::No)
      route.lane = lanes.try_emplace({k, value}, static_cast<uint32_t>(lanes.size())).first->second;
    return route;
  }
  void chooseHost() {
    const auto k = static_cast<uint32_t>(costs.links.size());
    LinkKind kind;
    kind.name = "host";
    kind.sharing = anySharing();
    costs.links.push_back(kind);
    for (uint32_t way = 0; way < 2 * schedule.devices; ++way)
      costs.hostRoutes.push_back(routeOver(k, way));
    const int64_t high = largest();
    for (bool isBack : {false, true}) {
      StageTable<int64_t> table;
      const bool isUneven = random.chance(30);
      std::vector<int64_t> services = times(schedule.stages, high);
      for (uint32_t m = 0; m < schedule.microbatches; ++m) {
        if (isUneven)
          services = times(schedule.stages, high);
        std::vector<int64_t> row = services;
        for (uint32_t s = 0; s < schedule.stages; ++s)
          row[s] += costs.hostRoutes[2 * schedule.placement[m][s] + isBack].latency;
        table.addMicrobatch(row);
      }
      table.finish();
      (isBack ? costs.reload : costs.offload) = table;
    }
  }

  /// Of what stage `s` sends to stage `t`; nothing where they share a device.
  std::pair<int64_t, uint32_t> wayOf(uint32_t m, int64_t s, int64_t t, int64_t service) {
    if (t < 0 || t >= static_cast<int64_t>(schedule.stages))
      return {0, noRoute};
    const uint32_t a = schedule.placement[m][static_cast<size_t>(s)],
                   b = schedule.placement[m][static_cast<size_t>(t)];
    if (a == b || routeOf.empty())
      return {0, noRoute};
    const uint32_t route = routeOf.at({a, b});
    service = std::min(service, longest[costs.routes[route].link]);
    return {costs.routes[route].latency + service, route};
  }
  void chooseRoutes() {
    for (size_t i = 0; i < skips.size(); ++i) {
      costs.skipBoundary.push_back(StageTable<int64_t>({1}));
      StageTable<int64_t> transfer;
      StageTable<uint32_t> routes;
      const std::vector<int64_t> services = times(2, 9);
      for (uint32_t m = 0; m < schedule.microbatches; ++m) {
        const auto there = wayOf(m, skips[i].from, skips[i].to, services[0]),
                   back = wayOf(m, skips[i].to, skips[i].from, services[1]);
        transfer.addMicrobatch({there.first, back.first});
        routes.addMicrobatch({there.second, back.second});
      }
      transfer.finish();
      routes.finish();
      costs.skipTransfer.push_back(transfer);
      if (!routeOf.empty())
        costs.skipRoute.push_back(routes);
    }
    if (routeOf.empty())
      return;
    for (int step : {1, -1}) {
      StageTable<int64_t> transfer;
      StageTable<uint32_t> routes;
      const bool isUneven = random.chance(30);
      std::vector<int64_t> services = times(schedule.stages, 40);
      for (uint32_t m = 0; m < schedule.microbatches; ++m) {
        if (isUneven)
          services = times(schedule.stages, 40);
        std::vector<int64_t> row;
        std::vector<uint32_t> ways;
        for (uint32_t s = 0; s < schedule.stages; ++s) {
          const auto [time, route] = wayOf(m, s, static_cast<int64_t>(s) + step, services[s]);
          row.push_back(time);
          ways.push_back(route);
        }
        transfer.addMicrobatch(row);
        routes.addMicrobatch(ways);
      }
      transfer.finish();
      routes.finish();
      (step > 0 ? costs.activationTransfer : costs.gradientTransfer) = transfer;
      (step > 0 ? costs.activationRoute : costs.gradientRoute) = routes;
    }
  }

  void chooseTimes() {
    for (std::vector<int64_t> *column : {&costs.update, &costs.reduce, &costs.unshard})
      if (random.chance(60))
        *column = times(schedule.stages, largest());
    if (!ties.empty() && random.chance(60))
      costs.reduceTied = times(ties.size(), largest());
  }

  Random random;
  const TimingChoice choice;
  RandomSchedule schedule;
  CostModel &costs;
  std::vector<SkipEdge> skips;
  std::vector<TiedWeight> ties;
  std::vector<uint32_t> laneOf; // per kind: what shares a lane
  std::vector<int64_t> longest; // per kind: service
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> routeOf;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> lanes;
};

std::string text(const char *name, const std::vector<int64_t> &values) {
  return values.empty() ? "" : fmt::format("  {}: {}\n", name, fmt::join(values, " "));
}

std::string text(const Route &route) {
  return fmt::format("link {} lane {} latency {}", route.link, static_cast<int32_t>(route.lane),
                     route.latency);
}

} // namespace

RandomTiming randomTiming(uint64_t seed, const TimingChoice &choice) {
  return Generator(seed, choice).generate();
}

std::string RandomTiming::str(const Program &any) const {
  const CostModel &costs = schedule.costs;
  std::string result = schedule.str();
  for (const LinkKind &kind : costs.links)
    result += fmt::format("  {}: {}\n", kind.name,
                          std::array{"not shared", "fifo", "fair"}[static_cast<size_t>(kind.sharing)]);
  for (size_t i = 0; i < costs.routes.size(); ++i)
    result += fmt::format("  route {} ({} to {}): {}\n", i, i / schedule.devices, i % schedule.devices,
                          text(costs.routes[i]));
  for (size_t i = 0; i < costs.hostRoutes.size(); ++i)
    result += fmt::format("  host {} of device {}: {}\n", i % 2 ? "back" : "there", i / 2,
                          text(costs.hostRoutes[i]));
  result += text("update", costs.update) + text("reduce", costs.reduce) + text("unshard", costs.unshard) +
            text("reduce_tied", costs.reduceTied);
  for (uint32_t m = 0; m < (costs.offload.empty() ? 0 : schedule.microbatches); ++m)
    for (uint32_t s = 0; s < schedule.stages; ++s)
      result += fmt::format("  offload({}, {}) {}, reload {}\n", s, m, costs.offload.at(s, m),
                            costs.reload.at(s, m));
  for (size_t i = 0; i < any.skips.size(); ++i)
    result += fmt::format("  edge {} -> {}{}: {} and {}\n", any.skips[i].from, any.skips[i].to,
                          any.skips[i].hasGradient ? "" : " without gradient", costs.skipTransfer[i].at(0, 0),
                          costs.skipTransfer[i].at(1, 0));
  for (const TiedWeight &tied : any.ties)
    result += fmt::format("  tied on {}\n", fmt::join(tied.stages, " "));
  for (uint32_t device = 0; device < any.devices; ++device) {
    result += fmt::format("device {}:", device);
    for (OpId id = any.deviceBegin[device]; id < any.deviceBegin[device + 1]; ++id)
      result += fmt::format(" {}{}: {};",
                            any.ops[id].has(GroupFollower) || any.ops[id].has(OverlapFollower) ? "& " : "",
                            id, sluice::str(any, id));
    result += "\n";
  }
  return result;
}

} // namespace sluice::slow
