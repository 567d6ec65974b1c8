#include "Timeline/EventBinding.h"

#include "Timeline/SimulateEvents.h"

namespace sluice {

/// Of several prerequisites the last to come; of equal ones the first considered, time 0 alone the last.
class EventBindings::Latest {
public:
  Latest(const EventBindings &of, int64_t transfer, EdgeKind kind) : of(of), transfer(transfer), kind(kind) {}

  void op(OpId id, EdgeKind via) {
    const int64_t end = id == noOp ? 0 : of.timeline.end[id];
    consider({end + transfer, transfer, noRequest, id, via});
  }
  void request(RequestId r) { request(r, transfer); }
  void request(RequestId r, int64_t behind) { consider({of.doneAt(r) + behind, behind, r, noOp, kind}); }
  const Cause &cause() const { return best; }

private:
  void consider(const Cause &candidate) {
    const bool isNothing = best.request == noRequest && best.op == noOp;
    if (candidate.time > best.time || (candidate.time == best.time && isNothing))
      best = candidate;
  }

  const EventBindings &of;
  const int64_t transfer; // what the event itself adds
  const EdgeKind kind;
  Cause best;
};

EventBindings::EventBindings(const Program &program, const CostModel &costs, const Timeline &timeline)
    : program(program), costs(costs), timeline(timeline), rules(costs.channels),
      requests(program, costs.channels), before(requests.size(), noRequest), roots(requests.size()) {
  for (RequestId head : requests.queueHead) {
    RequestId last = noRequest, latest = noRequest; // of the statement before, and of this one
    for (RequestId r = head; r != noRequest; r = requests.next[r]) {
      before[r] = last;
      if (latest == noRequest || doneAt(r) > doneAt(latest))
        latest = r;
      const RequestId next = requests.next[r];
      if (next != noRequest && requests.statement[next] != requests.statement[r]) {
        last = latest;
        latest = noRequest;
      }
    }
  }
  for (OpId id = 0; id < program.size(); ++id)
    if (program.ops[id].isWait() && (program.ops[id].isCommunication() || requests.joins(program.ops[id])))
      waitOps.push_back(id);
  if (rules.progressInWait) {
    waitOf.assign(requests.size(), noOp);
    for (size_t i = 0; i < waitOps.size(); ++i)
      waitOf[requests.waits[i]] = waitOps[i];
  }
  if (rules.connectOnFirstUse)
    for (RequestId r = 0; r < requests.size(); ++r)
      if (!requests.isCall(r))
        firstUse.try_emplace({requests.device(r), requests.peer(r)}, r);
}

OpId EventBindings::opBefore(OpId op) const {
  if (op == program.deviceBegin[program.deviceOf(op)])
    return noOp;
  --op;
  while (program.ops[op].has(OverlapFollower))
    --op;
  return op;
}

EdgeKind EventBindings::kindOf(RequestId r) const {
  if (requests.isCall(r))
    return EdgeKind::Contribution;
  return messageOf(program, requests.op[r]).isGradient ? EdgeKind::Gradient : EdgeKind::Activation;
}

/// When the statement of `r` is posted: its device has come to it and its pairs are connected.
void EventBindings::beginOf(RequestId r, Latest &latest) const {
  const RequestId first = requests.statement[r];
  latest.op(opBefore(requests.op[first]), EdgeKind::Order);
  if (!rules.connectOnFirstUse || requests.isCall(r))
    return;
  for (RequestId member = first, end = requests.endOfStatement(first); member < end; ++member) {
    auto own = firstUse.find({requests.device(member), requests.peer(member)});
    if (requests.statement[own->second] != first)
      continue;
    auto other = firstUse.find({requests.peer(member), requests.device(member)});
    if (other != firstUse.end())
      latest.op(opBefore(requests.op[requests.statement[other->second]]), kindOf(member));
  }
}

void EventBindings::readyOf(RequestId r, Latest &latest) const {
  beginOf(r, latest);
  if (rules.progressInWait && requests.isStarted(r) && waitOf[r] != noOp)
    latest.op(opBefore(waitOf[r]), EdgeKind::Order);
  if (before[r] != noRequest)
    latest.request(before[r]);
}

/// Under atomic groups what every member needs, and under rendezvous every member of its partner's group.
void EventBindings::wholeGroup(RequestId r, Latest &latest) const {
  const RequestId first = requests.statement[r];
  for (RequestId member = first, end = requests.endOfStatement(first); member < end; ++member) {
    readyOf(member, latest);
    if (rules.isRendezvous())
      readyOf(requests.partner(member), latest);
    else if (!requests.isSend(member))
      latest.request(requests.partner(member));
    else if (!rules.isUnbounded() && requests.ordinal[member] >= rules.depth)
      latest.request(requests.receive(member, rules.depth));
  }
}

EventBindings::Cause EventBindings::causeOf(RequestId r) const {
  const EdgeKind kind = kindOf(r);
  const RequestId partner = requests.isCall(r) ? noRequest : requests.partner(r);
  int64_t transfer = 0; // behind all of its prerequisites
  if (partner != noRequest && rules.isRendezvous())
    transfer = transferOf(program, costs, messageOf(program, requests.op[requests.isSend(r) ? r : partner]));
  Latest latest(*this, transfer, kind);
  readyOf(r, latest);
  if (requests.isCall(r)) {
    for (RequestId call : requests.callsOf(requests.direction[r]))
      readyOf(call, latest);
    return latest.cause();
  }
  if (rules.atomicGroups)
    wholeGroup(r, latest);
  if (rules.isRendezvous()) {
    readyOf(partner, latest);
    if (rules.atomicGroups)
      wholeGroup(partner, latest);
  } else if (!requests.isSend(r)) {
    latest.request(partner, transferOf(program, costs, messageOf(program, requests.op[partner])));
  } else if (!rules.isUnbounded() && requests.ordinal[r] >= rules.depth) {
    latest.request(requests.receive(r, rules.depth));
  }
  return latest.cause();
}

const EventBindings::Cause &EventBindings::rootOf(RequestId r) const {
  const RequestId asked = r;
  while (roots[r].time < 0) {
    const Cause cause = causeOf(r);
    if (cause.request == noRequest) {
      roots[r] = cause;
      break;
    }
    pending.emplace_back(r, cause);
    r = cause.request;
  }
  // Causes are prerequisites, so this leads to an op; back down the messages in between add up.
  for (; !pending.empty(); pending.pop_back()) {
    const auto &[waiting, cause] = pending.back();
    const Cause &root = roots[cause.request];
    roots[waiting] = {cause.time, root.transfer + cause.transfer, noRequest, root.op, cause.kind};
  }
  return roots[asked];
}

void EventBindings::consider(OpId first, Binding &best) const {
  const Op &op = program.ops[first];
  const bool isRequest = op.isCommunication() || requests.joins(op);
  if (!isRequest || op.has(GroupFollower)) // a follower ends with the one before it
    return;
  auto take = [&](const Cause &cause) {
    if (cause.time > best.arrival)
      best = {cause.op, cause.kind, cause.time, cause.transfer};
  };
  if (op.isWait()) {
    const auto wait = std::lower_bound(waitOps.begin(), waitOps.end(), first) - waitOps.begin();
    return take(rootOf(requests.waits[static_cast<size_t>(wait)]));
  }
  const RequestId r = requests.of(first);
  if (op.isStarted()) {
    Latest latest(*this, 0, kindOf(r));
    beginOf(r, latest);
    return take(latest.cause());
  }
  for (RequestId member = r, end = requests.endOfStatement(r); member < end; ++member)
    take(rootOf(member));
}

} // namespace sluice
