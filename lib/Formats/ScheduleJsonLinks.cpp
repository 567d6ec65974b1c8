// The links of schedule JSON, and the routes that transfers take over them.
#include "Formats/ScheduleJson.h"
#include "Formats/ScheduleJsonCosts.h"

#include <fmt/format.h>

namespace sluice {

using Kind = JsonValue::Kind;

llvm::ArrayRef<llvm::StringRef> linkKeys() {
  static constexpr llvm::StringRef keys[] = {
      "links", "lanes", "routes", "host_routes", "activation_route", "gradient_route", "skip_route"};
  return keys;
}

namespace {

class LinksReader {
public:
  LinksReader(const JsonValue &model, JsonFields &fields, const Program &program, CostModel &costs)
      : model(model), fields(fields), program(program), costs(costs) {}

  void run() {
    if (const JsonValue *links = fields.field(model, "links", Kind::Array))
      for (const JsonValue &link : links->items)
        readLink(link);
    costs.laneCount = static_cast<uint32_t>(fields.integerField(model, "lanes", 0, mostLanes).value_or(0));
    costs.routes = routes("routes");
    costs.hostRoutes = routes("host_routes");
    if (!fields.good)
      return;
    const size_t ways = costs.hostRoutes.size();
    if (ways != 0 && ways != 2 * static_cast<size_t>(program.devices))
      return fields.expected(*model.find("host_routes"),
                             fmt::format("{} routes, two a device", 2 * program.devices));
    // Who has routes has one for each transfer.
    const bool hasRoutes = !costs.routes.empty();
    for (const RouteTable &entry : routeTables())
      if (const JsonValue *found = model.find(entry.key)) {
        if (auto table = routeTable(*found, entry.key, program.stages))
          costs.*entry.table = std::move(*table);
      } else if (hasRoutes) {
        fields.needed(model, entry.key, Kind::Array);
      }
    if (hasRoutes && !program.skips.empty())
      fields.needed(model, "skip_route", Kind::Array);
    readSkips();
    if (fields.good)
      checkTimes();
    if (hasRoutes)
      return;
    costs.activationRoute = costs.gradientRoute = {}; // of no transfer
    costs.skipRoute.clear();
  }

private:
  void readLink(const JsonValue &link) {
    if (!fields.isKind(link, Kind::Object, "a link"))
      return;
    fields.checkKeys(link, {"name", "shared"});
    LinkKind kind;
    if (const JsonValue *name = fields.needed(link, "name", Kind::Text))
      kind.name = name->text.str();
    if (const JsonValue *shared = fields.field(link, "shared", Kind::Text)) {
      kind.sharing = shared->text == "fifo"   ? Sharing::Fifo
                     : shared->text == "fair" ? Sharing::Fair
                                              : Sharing::No;
      if (kind.sharing == Sharing::No && shared->text != "no")
        fields.expected(*shared, "\"no\", \"fifo\" or \"fair\"");
    }
    costs.links.push_back(std::move(kind));
  }
  std::vector<Route> routes(llvm::StringRef key) {
    std::vector<Route> result;
    const JsonValue *found = fields.field(model, key, Kind::Array);
    for (const JsonValue &entry : found ? llvm::ArrayRef(found->items) : llvm::ArrayRef<JsonValue>()) {
      if (!entry.is(Kind::Array) || entry.items.size() != 3) {
        fields.expected(entry, "[link, lane or null, latency]");
        continue;
      }
      const auto last = static_cast<int64_t>(costs.links.size()) - 1;
      auto link = fields.integer(entry.items[0], "the link", 0, last);
      auto latency = fields.integer(entry.items[2], "the latency", 0, INT64_MAX);
      if (!link || !latency)
        continue;
      Route route{static_cast<uint32_t>(*link), noLane, *latency};
      const bool isShared = costs.links[route.link].sharing != Sharing::No;
      if (entry.items[1].is(Kind::Null) == isShared) {
        fields.expected(entry.items[1],
                        isShared ? "a lane: the link is shared" : "null: the link is not shared");
        continue;
      }
      if (isShared)
        if (auto lane =
                fields.integer(entry.items[1], "the lane", 0, static_cast<int64_t>(costs.laneCount) - 1))
          route.lane = static_cast<uint32_t>(*lane);
      result.push_back(route);
    }
    return result;
  }
  std::optional<StageTable<uint32_t>> routeTable(const JsonValue &value, llvm::StringRef key,
                                                 uint32_t columns) {
    auto table = fields.table(value, key, columns, program.microbatches,
                              static_cast<int64_t>(costs.routes.size()) - 1, noRoute);
    if (!table)
      return std::nullopt;
    return table->mapped([](int64_t route) { return static_cast<uint32_t>(route); });
  }
  void readSkips() {
    const JsonValue *found = fields.field(model, "skip_route", Kind::Array);
    if (!found)
      return;
    if (found->items.size() != program.skips.size())
      return fields.expected(*found, fmt::format("a table for each of the {} edges", program.skips.size()));
    for (const JsonValue &item : found->items)
      if (auto table = routeTable(item, "skip_route", 2))
        costs.skipRoute.push_back(std::move(*table));
  }

  /// A transfer takes at least the latency of its route; without a route it takes no time.
  void checkTimes() {
    auto fits = [&](const StageTable<int64_t> &times, const StageTable<uint32_t> &routes, uint32_t columns) {
      for (uint32_t m = 0; !routes.empty() && m < program.microbatches; ++m)
        for (uint32_t column = 0; column < columns; ++column) {
          const uint32_t route = routes.at(column, m);
          const int64_t time = times.at(column, m);
          if (route == noRoute ? time != 0 : time < costs.routes[route].latency)
            return false;
        }
      return true;
    };
    auto demand = [&](bool holds, llvm::StringRef key) {
      if (!holds && fields.good)
        fields.expected(*model.find(key), "a route for each transfer that takes time, of no larger latency");
    };
    demand(fits(costs.activationTransfer, costs.activationRoute, program.stages), "activation_route");
    demand(fits(costs.gradientTransfer, costs.gradientRoute, program.stages), "gradient_route");
    for (size_t i = 0; i < costs.skipRoute.size(); ++i)
      demand(fits(costs.skipTransfer[i], costs.skipRoute[i], 2), "skip_route");
    if (!costs.offload.empty() || !costs.reload.empty())
      demand(fitsHost(), "host_routes");
  }
  bool fitsHost() {
    if (costs.hostRoutes.empty()) {
      fields.needed(model, "host_routes", Kind::Array);
      return false;
    }
    for (uint32_t way = 0; way < 2; ++way) {
      const StageTable<int64_t> &times = way == 0 ? costs.offload : costs.reload;
      for (uint32_t m = 0; !times.empty() && m < program.microbatches; ++m)
        for (uint32_t s = 0; s < program.stages; ++s) {
          const uint32_t device = program.deviceOf(s, m);
          if (device != noDevice && times.at(s, m) < costs.hostRoutes[2 * device + way].latency)
            return false;
        }
    }
    return true;
  }

  const JsonValue &model;
  JsonFields &fields;
  const Program &program;
  CostModel &costs;
  static constexpr int64_t mostLanes = 0x7fff'fffe;
};

} // namespace

void readLinks(const JsonValue &model, JsonFields &fields, const Program &program, CostModel &costs) {
  LinksReader(model, fields, program, costs).run();
}

} // namespace sluice
