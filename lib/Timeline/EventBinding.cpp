#include "Timeline/EventBinding.h"

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
  void request(RequestId r, int64_t behind) {
    consider({of.graph.doneAt(r) + behind, behind, r, noOp, kind});
  }
  void queue(RequestId r) { request(of.graph.before[r]); }
  const Cause &cause() const { return best; }
  void consider(const Cause &candidate) {
    const bool isNothing = best.request == noRequest && best.op == noOp;
    if (candidate.time > best.time || (candidate.time == best.time && isNothing))
      best = candidate;
  }

private:
  const EventBindings &of;
  const int64_t transfer; // what the event itself adds
  const EdgeKind kind;
  Cause best;
};

EventBindings::EventBindings(const Program &program, const CostModel &costs, const Timeline &timeline)
    : program(program), costs(costs), timeline(timeline), graph(program, costs, timeline),
      roots(graph.requests.size()), meetings(graph.requests.meetingCount()) {}

EventBindings::Cause EventBindings::causeOf(RequestId r) const {
  Latest latest(*this, graph.flight(r), graph.kindOf(r));
  if (!graph.requests.isCall(r)) {
    graph.eachPrerequisite(r, latest);
    return latest.cause();
  }
  // All calls of a meeting wait for the same, but each prefers what stands on its own device.
  graph.readyOf(r, latest);
  Cause &meeting = meetings[graph.requests.direction[r]];
  if (meeting.time < 0) {
    Latest all(*this, graph.flight(r), graph.kindOf(r));
    graph.eachPrerequisite(graph.requests.callsOf(graph.requests.direction[r]).front(), all);
    meeting = all.cause();
  }
  latest.consider(meeting);
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
  const Requests &requests = graph.requests;
  const bool isRequest = op.isCommunication() || requests.joins(op);
  if (!isRequest || op.has(GroupFollower)) // a follower ends with the one before it
    return;
  // An op that is occupied while its request is under way begins that much earlier than it ends.
  const int64_t occupied =
      occupiesFromMet(costs, op) ? timeline.end[first] - timeline.start(program, costs, first) : 0;
  auto take = [&](const Cause &cause) {
    if (cause.time - occupied > best.arrival)
      best = {cause.op, cause.kind, cause.time - occupied, cause.transfer - occupied};
  };
  if (op.isWait()) {
    const auto wait =
        std::lower_bound(graph.waitOps.begin(), graph.waitOps.end(), first) - graph.waitOps.begin();
    return take(rootOf(requests.waits[static_cast<size_t>(wait)]));
  }
  const RequestId r = requests.of(first);
  if (op.isStarted()) {
    Latest latest(*this, 0, graph.kindOf(r));
    graph.beginOf(r, latest);
    return take(latest.cause());
  }
  for (RequestId member = r, end = requests.endOfStatement(r); member < end; ++member)
    take(rootOf(member));
}

} // namespace sluice
