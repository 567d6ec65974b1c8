// The prerequisites of each request of written communication, enumerated: what EventBinding.cpp takes the
// last of and Slack.cpp goes through backwards. The event graph of lib/Events, with the times of a timeline.
// Private to lib/Timeline.
//
// A sink is told of each with
//   op(OpId id, EdgeKind via)                   the end of an op; noOp: time 0
//   request(RequestId r), request(r, behind)    another request's end, and how long after that at least
//   queue(RequestId r)                          all requests of the statement before r in its queue
#pragma once

#include "Events/Requests.h"
#include "Timeline/SimulateEvents.h"

namespace sluice {

class EventGraph {
public:
  /// Of a program whose communication is written; keeps references.
  EventGraph(const Program &program, const CostModel &costs, const Timeline &timeline);

  const Requests requests;
  /// Per request, of the statement before it in its queue the last to end, and the first in the queue.
  std::vector<RequestId> before, firstBefore;
  std::vector<OpId> waitOps; ///< Of Requests::waits.

  int64_t doneAt(RequestId r) const { return timeline.done[requests.op[r]]; }
  OpId opBefore(OpId op) const;
  EdgeKind kindOf(RequestId r) const;
  /// How long a call, or under rendezvous a message, is under way once all it needs is there.
  int64_t flight(RequestId r) const;
  /// All but a stored receive's send come as `op`, `request(r)` and `queue`, and are followed by `flight`.
  template <typename Sink> void eachPrerequisite(RequestId r, Sink &sink) const;
  /// Of the moment its statement is posted.
  template <typename Sink> void beginOf(RequestId r, Sink &sink) const;
  /// Of the moment it is ready at its end of the channel.
  template <typename Sink> void readyOf(RequestId r, Sink &sink) const;

private:
  template <typename Sink> void wholeGroup(RequestId r, Sink &sink) const;

  const Program &program;
  const CostModel &costs;
  const Timeline &timeline;
  const ChannelRules rules;
  std::vector<OpId> waitOf; // per request; only where transfers move in waits alone
  /// Under connect = first_use: the first request of each device to each other.
  llvm::DenseMap<std::pair<uint32_t, uint32_t>, RequestId> firstUse;
};

/// When the statement of `r` is posted: its device has come to it and its pairs are connected.
template <typename Sink> void EventGraph::beginOf(RequestId r, Sink &sink) const {
  const RequestId first = requests.statement[r];
  sink.op(opBefore(requests.op[first]), EdgeKind::Order);
  if (!rules.connectOnFirstUse || requests.isCall(r))
    return;
  for (RequestId member = first, end = requests.endOfStatement(first); member < end; ++member) {
    auto own = firstUse.find({requests.device(member), requests.peer(member)});
    if (requests.statement[own->second] != first)
      continue;
    auto other = firstUse.find({requests.peer(member), requests.device(member)});
    if (other != firstUse.end())
      sink.op(opBefore(requests.op[requests.statement[other->second]]), kindOf(member));
  }
}

template <typename Sink> void EventGraph::readyOf(RequestId r, Sink &sink) const {
  beginOf(r, sink);
  if (rules.progressInWait && requests.isStarted(r) && waitOf[r] != noOp)
    sink.op(opBefore(waitOf[r]), EdgeKind::Order);
  if (before[r] != noRequest)
    sink.queue(r);
}

/// Under atomic groups what every member needs, and under rendezvous every member of its partner's group.
template <typename Sink> void EventGraph::wholeGroup(RequestId r, Sink &sink) const {
  const RequestId first = requests.statement[r];
  for (RequestId member = first, end = requests.endOfStatement(first); member < end; ++member) {
    readyOf(member, sink);
    if (rules.isRendezvous())
      readyOf(requests.partner(member), sink);
    else if (!requests.isSend(member))
      sink.request(requests.partner(member));
    else if (!rules.isUnbounded() && requests.ordinal[member] >= rules.depth)
      sink.request(requests.receive(member, rules.depth));
  }
}

template <typename Sink> void EventGraph::eachPrerequisite(RequestId r, Sink &sink) const {
  readyOf(r, sink);
  if (requests.isCall(r)) {
    for (RequestId call : requests.callsOf(requests.direction[r]))
      readyOf(call, sink);
    return;
  }
  const RequestId partner = requests.partner(r);
  if (rules.atomicGroups)
    wholeGroup(r, sink);
  if (rules.isRendezvous()) {
    readyOf(partner, sink);
    if (rules.atomicGroups)
      wholeGroup(partner, sink);
  } else if (!requests.isSend(r)) {
    const OpId send = requests.op[partner];
    sink.request(partner, !timeline.arrived.empty() && timeline.arrived[send] >= 0
                              ? timeline.arrived[send] - timeline.done[send]
                              : transferOf(program, costs, messageOf(program, send)));
  } else if (!rules.isUnbounded() && requests.ordinal[r] >= rules.depth) {
    sink.request(requests.receive(r, rules.depth));
  }
}

} // namespace sluice
