// Written messages as docs/language.md ("What blocks") has them: pairing, queues, channel models and groups,
// found here anew.
#include "SlowGraph.h"

#include <algorithm>

namespace sluice::slow {

/// Both stages, the sender's first.
std::pair<uint32_t, uint32_t> Graph::stagesOf(OpId id) const {
  const uint32_t here = program.ops[id].stage, there = program.peerStageOf(id);
  return program.ops[id].isSend() ? std::pair(here, there) : std::pair(there, here);
}

bool Graph::isGradient(OpId id) const {
  return program.ops[id].kind == OpKind::SendGradient || program.ops[id].kind == OpKind::RecvGradient;
}

/// The transfer of what is sent.
size_t Graph::addCarriage(OpId send) {
  const auto [from, to] = stagesOf(send);
  const uint32_t m = program.ops[send].microbatch;
  const bool isBack = isGradient(send);
  int64_t transfer = isBack ? costs.gradientTransfer.at(from, m) : costs.activationTransfer.at(from, m);
  const StageTable<uint32_t> &routes = isBack ? costs.gradientRoute : costs.activationRoute;
  uint32_t route = routes.empty() ? noRoute : routes.at(from, m);
  for (size_t i = 0; i < program.skips.size() && program.ops[send].namesPeer(); ++i)
    if (std::set{from, to} == std::set{program.skips[i].from, program.skips[i].to}) {
      transfer = costs.skipTransfer[i].at(isBack, m);
      route = costs.skipRoute.empty() ? noRoute : costs.skipRoute[i].at(isBack, m);
    }
  return addPassage(transfer, route == noRoute ? nullptr : &costs.routes[route], send, to);
}

uint32_t Graph::peerDevice(size_t r) const {
  const auto [from, to] = stagesOf(requests[r].op);
  return program.deviceOf(op(r).isSend() ? to : from, op(r).microbatch);
}

int64_t Graph::firstBetween(uint32_t here, uint32_t there) const {
  for (size_t r = 0; r < requests.size(); ++r)
    if (requests[r].kind == Request::Message && statements[requests[r].statement].device == here &&
        peerDevice(r) == there)
      return static_cast<int64_t>(requests[r].statement);
  return -1;
}

/// Before the first request between two devices both come together.
void Graph::addConnections(size_t i) {
  const Statement &statement = statements[i];
  for (size_t r : statement.requests) {
    if (!rules.connectOnFirstUse || requests[r].kind != Request::Message)
      continue;
    const uint32_t peer = peerDevice(r);
    if (firstBetween(statement.device, peer) != static_cast<int64_t>(i))
      continue;
    const int64_t other = firstBetween(peer, statement.device);
    if (other < 0)
      clock.events[statement.begins].never = true;
    else if (other > 0 && statements[static_cast<size_t>(other) - 1].device == peer)
      need(statement.begins, statements[static_cast<size_t>(other) - 1].ends);
  }
}

void Graph::addReady(size_t r) {
  const Request &request = requests[r];
  need(request.ready, statements[request.statement].begins);
  int64_t before = -1; // the statement before at the same end
  for (const Request &other : requests)
    if (other.queue == request.queue && other.statement < request.statement)
      before = std::max(before, static_cast<int64_t>(other.statement));
  for (const Request &other : requests)
    if (other.queue == request.queue && static_cast<int64_t>(other.statement) == before)
      need(request.ready, other.done);
  if (rules.progressInWait && op(r).isStarted() && !request.isAlone) {
    if (request.wait < 0)
      clock.events[request.ready].never = true;
    else
      need(request.ready, statements[static_cast<size_t>(request.wait)].begins);
  }
}

/// The n-th of the other kind on the same channel.
int64_t Graph::onChannel(size_t r, bool isSend, int64_t ordinal) const {
  for (size_t q = 0; q < requests.size(); ++q)
    if (requests[q].channel == requests[r].channel && op(q).isSend() == isSend &&
        static_cast<int64_t>(requests[q].ordinal) == ordinal)
      return static_cast<int64_t>(q);
  return -1;
}

/// What `met(r)` needs.
void Graph::needsOf(size_t r, size_t event) {
  need(event, requests[r].ready);
  auto needDone = [&](int64_t q, bool isDone) {
    if (q < 0)
      clock.events[event].never = true;
    else
      need(event, isDone ? requests[static_cast<size_t>(q)].done : requests[static_cast<size_t>(q)].ready);
  };
  const auto ordinal = static_cast<int64_t>(requests[r].ordinal);
  if (rules.isRendezvous())
    needDone(partner(r), false);
  else if (!op(r).isSend())
    needDone(partner(r), true);
  else if (!rules.isUnbounded() && ordinal >= static_cast<int64_t>(rules.depth))
    needDone(onChannel(r, false, ordinal - rules.depth), true);
}

void Graph::addWritten(size_t r) {
  addReady(r);
  needsOf(r, requests[r].met);
  need(requests[r].done, requests[r].met);
  const int64_t other = partner(r);
  // What pairs travels, even if it is not what the receive names.
  if (op(r).isSend() && other >= 0) {
    Request &receive = requests[static_cast<size_t>(other)];
    const size_t carries = addCarriage(requests[r].op);
    requests[r].carries = receive.carries = static_cast<int64_t>(carries);
    if (rules.isRendezvous()) {
      need(carries, requests[r].met);
      need(carries, receive.met);
      need(requests[r].done, carries);
    } else {
      need(carries, requests[r].done);
    }
    need(receive.done, carries);
  }
  if (!rules.atomicGroups)
    return;
  const size_t met = requests[r].met;
  for (size_t member : statements[requests[r].statement].requests)
    needsOf(member, met);
  if (rules.isRendezvous() && other >= 0)
    for (size_t member : statements[requests[static_cast<size_t>(other)].statement].requests)
      needsOf(member, met);
}

} // namespace sluice::slow
