#include "Timeline/SimulateEvents.h"

#include "Events/Execution.h"

#include <algorithm>

namespace sluice {

int64_t transferOf(const Program &program, const CostModel &costs, const Message &message) {
  if (message.isGradient ? message.to + 1 == message.from : message.from + 1 == message.to)
    return (message.isGradient ? costs.gradientTransfer : costs.activationTransfer)
        .at(message.from, message.microbatch);
  const uint32_t low = std::min(message.from, message.to), high = std::max(message.from, message.to);
  for (uint32_t i = 0; i < costs.skipTransfer.size(); ++i)
    if (program.skips[i].from == low && program.skips[i].to == high)
      return costs.skipTransfer[i].at(message.isGradient, message.microbatch);
  return 0;
}

const Route *routeOf(const Program &program, const CostModel &costs, const Message &message) {
  if (costs.routes.empty())
    return nullptr;
  const uint32_t low = std::min(message.from, message.to), high = std::max(message.from, message.to);
  const StageTable<uint32_t> &chain = message.isGradient ? costs.gradientRoute : costs.activationRoute;
  uint32_t route = noRoute;
  if (high == low + 1)
    route = chain.empty() ? noRoute : chain.at(message.from, message.microbatch);
  for (size_t i = 0; high != low + 1 && i < costs.skipRoute.size(); ++i)
    if (program.skips[i].from == low && program.skips[i].to == high)
      route = costs.skipRoute[i].at(message.isGradient, message.microbatch);
  return route == noRoute ? nullptr : &costs.routes[route];
}

const Route *sharedRouteOf(const Program &program, const CostModel &costs, const Message &message) {
  const Route *route = costs.laneCount == 0 ? nullptr : routeOf(program, costs, message);
  return route && route->lane != noLane ? route : nullptr;
}

ChannelRules timelineRules(const CostModel &costs) {
  if (!costs.transfersBlock)
    return costs.channels;
  ChannelRules rules;
  rules.depth = 0;
  rules.key = ChannelRules::Key::Message;
  return rules;
}

bool occupiesFromMet(const CostModel &costs, const Op &op) {
  if (op.isStarted() || op.isWait())
    return false;
  return op.isCommunication() ? costs.transfersBlock
                              : op.mayStart() || (op.kind == OpKind::Norm && !op.has(Local));
}

namespace {

class ModelClock : public EventClock {
public:
  ModelClock(const Program &program, const CostModel &costs) : program(program), costs(costs) {}
  int64_t duration(OpId first, uint32_t count) const override {
    return durationOfGroup(costs, &program.ops[first], count);
  }
  int64_t transfer(OpId request) const override {
    return program.ops[request].isCommunication() ? transferOf(program, costs, messageOf(program, request))
                                                  : movingTime(costs, program.ops[request]);
  }
  const Route *sharedRoute(OpId send) const override {
    return sharedRouteOf(program, costs, messageOf(program, send));
  }

private:
  const Program &program;
  const CostModel &costs;
};

/// Every message goes to another device over an edge of the model.
bool hasPeers(const Program &program) {
  const MessageEdges edges(program);
  for (OpId id = 0; id < program.size(); ++id) {
    if (!program.ops[id].isCommunication())
      continue;
    const Message message = messageOf(program, id);
    if (edges.of(message) == MessageEdges::none)
      return false;
    const uint32_t from = program.deviceOf(message.from, message.microbatch);
    const uint32_t to = program.deviceOf(message.to, message.microbatch);
    if (from == to || from == noDevice || to == noDevice)
      return false;
  }
  return true;
}

} // namespace

std::optional<Timeline> simulateEvents(const Program &program, const CostModel &costs,
                                       Diagnostics &diagnostics) {
  if (!hasPeers(program))
    return std::nullopt;
  const ChannelRules rules = timelineRules(costs);
  const Requests requests(program, rules);
  const ModelClock clock(program, costs);
  std::optional<Lanes> lanes;
  if (costs.laneCount > 0)
    lanes.emplace(costs);
  std::optional<OwnMoves> moves;
  if (hasMovingTimes(program, costs))
    moves.emplace(program, costs, &requests, lanes ? &*lanes : nullptr);
  Execution execution(requests, rules, &clock, lanes ? &*lanes : nullptr, moves ? &*moves : nullptr);
  if (!execution.run())
    return std::nullopt;
  if (execution.hasOverflowed()) {
    reportOverflow(program, costs, diagnostics);
    return std::nullopt;
  }
  Timeline timeline;
  timeline.end = std::move(execution.endOf);
  timeline.met = timeline.done = timeline.end;
  for (OpId id = 0; moves && id < program.size(); ++id)
    if (moves->met[id] >= 0) {
      timeline.met[id] = moves->met[id];
      timeline.done[id] = moves->done[id];
    }
  if (lanes) {
    timeline.sent.assign(program.size(), -1);
    timeline.arrived.assign(program.size(), -1);
  }
  for (RequestId r = 0; r < requests.size(); ++r) {
    timeline.met[requests.op[r]] = execution.metAt[r];
    timeline.done[requests.op[r]] = execution.doneAt[r];
    if (lanes) {
      timeline.sent[requests.op[r]] = execution.sentAt[r];
      timeline.arrived[requests.op[r]] = execution.arrivedAt[r];
    }
  }
  for (int64_t end : timeline.end)
    timeline.makespan = std::max(timeline.makespan, end);
  return timeline;
}

} // namespace sluice
