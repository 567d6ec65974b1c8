#include "SlowGraph.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice::slow {

Graph::Graph(const Program &program, const CostModel &costs, Transfers transfers, Delay delay)
    : program(program), costs(costs), isFree(transfers == Transfers::Free), delay(delay),
      rules(program.isExplicit ? costs.channels : ChannelRules{}) {
  findStatements();
  for (size_t i = 0; i < statements.size(); ++i)
    addStatement(i);
  for (size_t r = 0; r < requests.size(); ++r)
    if (requests[r].kind == Request::Message)
      addWritten(r);
    else if (requests[r].kind == Request::Call)
      addCall(r);
    else
      addMove(r);
  if (!program.isExplicit)
    addInferred();
  clock.run();
}

/// Whether `op` is made by all devices of a group, or by one with its replicas.
bool Graph::isCall(const Op &op) const {
  return op.kind == OpKind::Reduce || op.kind == OpKind::ReduceTied || op.kind == OpKind::Unshard ||
         (op.kind == OpKind::Norm && !op.has(Local));
}

std::vector<uint32_t> Graph::membersOf(OpId id) const {
  std::set<uint32_t> devices;
  const Op &op = program.ops[id];
  auto addHolders = [&](uint32_t stage) {
    for (uint32_t m = 0; m < program.microbatches; ++m)
      devices.insert(program.deviceOf(stage, m));
  };
  if (op.kind == OpKind::Unshard)
    devices.insert(program.deviceOf(id));
  if (op.kind == OpKind::Reduce)
    addHolders(op.stage);
  if (op.kind == OpKind::ReduceTied)
    for (uint32_t stage : program.ties[op.microbatch].stages)
      addHolders(stage);
  for (uint32_t device = 0; device < program.devices && op.kind == OpKind::Norm; ++device)
    devices.insert(device);
  devices.erase(noDevice);
  return {devices.begin(), devices.end()};
}

int64_t Graph::callTime(const Op &op) const {
  auto at = [](const std::vector<int64_t> &times, size_t i) { return times.empty() ? 0 : times[i]; };
  if (isFree || op.kind == OpKind::Norm)
    return 0;
  return op.kind == OpKind::Reduce    ? at(costs.reduce, op.stage)
         : op.kind == OpKind::Unshard ? at(costs.unshard, op.stage)
                                      : at(costs.reduceTied, op.microbatch);
}

void Graph::findStatements() {
  for (uint32_t device = 0; device < program.devices; ++device)
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1];) {
      Statement statement{device, id, id + 1, {}, clock.add(device), clock.add(device)};
      while (
          statement.end < program.deviceBegin[device + 1] &&
          (program.ops[statement.end].has(OverlapFollower) || program.ops[statement.end].has(GroupFollower)))
        ++statement.end;
      statements.push_back(statement);
      for (; id < statement.end; ++id) {
        statementOf.push_back(statements.size() - 1);
        const Op &each = program.ops[id];
        if (!each.isCommunication() && !isCall(each) && each.kind != OpKind::Offload &&
            each.kind != OpKind::Reload)
          continue;
        Op named = each;
        named.flags = 0;
        if (each.kind == OpKind::ReduceTied)
          named.stage = 0; // a weight has several, its number tells it
        addRequest(id, fmt::format("{} {}", str(named), each.namesPeer() ? program.peerStageOf(id) : 0));
      }
    }
}

void Graph::addRequest(OpId id, const std::string &name) {
  const Op &each = program.ops[id];
  Statement &statement = statements.back();
  std::vector<size_t> &open = started[{statement.device, name}];
  if (each.isWait()) {
    waits.emplace_back(statements.size() - 1, open.empty() ? -1 : static_cast<int64_t>(open.front()));
    if (!open.empty()) {
      requests[open.front()].wait = static_cast<int64_t>(statements.size()) - 1;
      open.erase(open.begin());
    }
    return;
  }
  if (each.isStarted())
    open.push_back(requests.size());
  statement.requests.push_back(requests.size());
  Request request;
  request.kind = each.isCommunication() ? Request::Message : isCall(each) ? Request::Call : Request::Move;
  request.op = id;
  request.statement = statements.size() - 1;
  request.ready = clock.add(statement.device);
  request.met = clock.add(statement.device);
  request.done = clock.add(statement.device);
  nameChannel(request, name);
  request.ordinal = ordinals[{
      each.isSend(),
      request.channel + (request.kind == Request::Message ? "" : std::to_string(statement.device))}]++;
  requests.push_back(request);
}

void Graph::nameChannel(Request &request, const std::string &name) {
  const Op &each = program.ops[request.op];
  const uint32_t device = statements[request.statement].device;
  request.channel = "call " + name;
  if (request.kind == Request::Call) {
    const std::vector<uint32_t> members = membersOf(request.op);
    request.queue = fmt::format("calls {} at {}", fmt::join(members, " "), device);
    // One device alone has no channel: what blocks others does not concern its calls.
    request.isAlone = members.size() == 1;
    if (rules.deviceService && !request.isAlone)
      request.queue = fmt::format("at {}", device);
  } else if (request.kind == Request::Message) {
    const auto [from, to] = stagesOf(request.op);
    const uint32_t a = program.deviceOf(from, each.microbatch), b = program.deviceOf(to, each.microbatch);
    std::string key = fmt::format("{} to {}", a, b);
    if (rules.key == ChannelRules::Key::Pair)
      key = fmt::format("{} and {}", std::min(a, b), std::max(a, b));
    if (rules.key == ChannelRules::Key::Edge || rules.key == ChannelRules::Key::Message)
      key += fmt::format(", {} to {} {}", from, to, isGradient(request.op));
    if (rules.key == ChannelRules::Key::Message)
      key += fmt::format(" of {}", each.microbatch);
    request.channel = fmt::format("{}: from {}", key, a);
    request.queue = fmt::format("{} at {}", key, device);
    if (rules.deviceService)
      request.queue = fmt::format("at {}", device);
  }
}

int64_t Graph::ownTime(const Statement &statement) const {
  const Op &op = program.ops[statement.first];
  if (op.kind == OpKind::Update)
    return costs.update.empty() ? 0 : costs.update[op.stage];
  return computeTime(program, costs, statement.first, statement.end);
}

void Graph::addStatement(size_t i) {
  const Statement &statement = statements[i];
  if (i > 0 && statements[i - 1].device == statement.device)
    need(statement.begins, statements[i - 1].ends);
  if (program.isExplicit)
    addConnections(i);
  need(statement.ends, statement.begins);
  for (const auto &[waiting, request] : waits)
    if (waiting == i) {
      if (request < 0)
        clock.events[statement.ends].never = true;
      else
        need(statement.ends, requests[static_cast<size_t>(request)].done);
    }
  for (size_t r : statement.requests)
    if (!op(r).isStarted())
      need(statement.ends, requests[r].done);
  clock.events[statement.ends].own = ownTime(statement);
  // What is started is then under way later, too.
  if (delay.op >= statement.first && delay.op < statement.end)
    clock.events[program.ops[statement.first].isStarted() ? statement.begins : statement.ends].own +=
        delay.by;
}

/// All devices of its group must have it ready.
void Graph::addCall(size_t r) {
  addReady(r);
  const Request &request = requests[r];
  const std::vector<uint32_t> members = membersOf(request.op);
  std::set<uint32_t> present;
  for (size_t q = 0; q < requests.size(); ++q)
    if (requests[q].channel == request.channel && requests[q].ordinal == request.ordinal &&
        (members.size() > 1 || q == r)) {
      present.insert(statements[requests[q].statement].device);
      need(request.met, requests[q].ready);
    }
  clock.events[request.met].never = present.size() != members.size();
  need(request.done, request.met);
  clock.events[request.done].own = callTime(op(r));
  clock.events[request.done].isUnderWay = true;
}

void Graph::addMove(size_t r) {
  Request &request = requests[r];
  need(request.ready, statements[request.statement].begins);
  need(request.met, request.ready);
  const uint32_t device = statements[request.statement].device;
  const bool isBack = op(r).kind == OpKind::Reload;
  const StageTable<int64_t> &times = isBack ? costs.reload : costs.offload;
  const Route *route = costs.hostRoutes.empty() ? nullptr : &costs.hostRoutes[2 * device + isBack];
  const size_t passage =
      addPassage(times.empty() ? 0 : times.at(op(r).stage, op(r).microbatch), route, request.op, op(r).stage);
  requests[r].carries = static_cast<int64_t>(passage);
  need(passage, requests[r].met);
  need(requests[r].done, passage);
}

size_t Graph::addPassage(int64_t transfer, const Route *route, OpId sender, uint32_t stage) {
  const size_t event = clock.add(noDevice);
  Passage passage;
  passage.sender = sender;
  passage.stage = stage;
  if (!isFree) {
    passage.latency = route ? route->latency : 0;
    passage.service = transfer - passage.latency;
    passage.sharing = route && route->link != noLink ? costs.links[route->link].sharing : Sharing::No;
    passage.lane = passage.sharing == Sharing::No ? noLane : route->lane;
  }
  clock.events[event].isUnderWay = true;
  clock.events[event].passage = static_cast<int64_t>(clock.passages.size());
  clock.passages.push_back(passage);
  return event;
}

void Graph::addMessage(OpId from, OpId to, bool isGradient, int64_t transfer, uint32_t route) {
  const size_t event =
      addPassage(transfer, route == noRoute ? nullptr : &costs.routes[route], from, program.ops[to].stage);
  clock.events[event].device = statements[statementOf[from]].device;
  need(event, statements[statementOf[from]].ends);
  need(statements[statementOf[to]].begins, event);
  inferred.push_back({from, to, isGradient, event});
}

/// The first op of each kind, stage and microbatch makes the value; on one device the program's order hands
/// it over.
void Graph::addInferred() {
  std::map<std::tuple<bool, uint32_t, uint32_t>, OpId> makers; // of gradients, or outputs
  for (OpId id = 0; id < program.size(); ++id) {
    const Op &each = program.ops[id];
    if (each.kind == OpKind::Forward || each.makesGradient())
      makers.try_emplace({each.makesGradient(), each.stage, each.microbatch}, id);
  }
  auto routeAt = [](const StageTable<uint32_t> &routes, uint32_t s, uint32_t m) {
    return routes.empty() ? noRoute : routes.at(s, m);
  };
  for (OpId id = 0; id < program.size(); ++id) {
    const Op &each = program.ops[id];
    const uint32_t s = each.stage, m = each.microbatch;
    const bool isBack = each.makesGradient();
    if (each.kind != OpKind::Forward && !isBack)
      continue;
    auto from = [&](uint32_t other, int64_t transfer, uint32_t route) {
      auto maker = makers.find({isBack, other, m});
      if (maker != makers.end() && program.deviceOf(other, m) != program.deviceOf(s, m))
        addMessage(maker->second, id, isBack, transfer, route);
    };
    if (!isBack && s > 0)
      from(s - 1, costs.activationTransfer.at(s - 1, m), routeAt(costs.activationRoute, s - 1, m));
    if (isBack && s + 1 < program.stages)
      from(s + 1, costs.gradientTransfer.at(s + 1, m), routeAt(costs.gradientRoute, s + 1, m));
    for (size_t i = 0; i < program.skips.size(); ++i) {
      const SkipEdge &skip = program.skips[i];
      const uint32_t route = costs.skipRoute.empty() ? noRoute : routeAt(costs.skipRoute[i], isBack, m);
      if (!isBack && skip.to == s)
        from(skip.from, costs.skipTransfer[i].at(0, m), route);
      if (isBack && skip.from == s && skip.hasGradient)
        from(skip.to, costs.skipTransfer[i].at(1, m), route);
    }
  }
}

} // namespace sluice::slow
