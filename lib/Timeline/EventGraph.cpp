#include "Timeline/EventGraph.h"

namespace sluice {

EventGraph::EventGraph(const Program &program, const CostModel &costs, const Timeline &timeline)
    : requests(program, timelineRules(costs)), before(requests.size(), noRequest),
      firstBefore(requests.size(), noRequest), program(program), costs(costs), timeline(timeline),
      rules(timelineRules(costs)) {
  for (RequestId head : requests.queueHead) {
    RequestId last = noRequest, lastFirst = noRequest; // of the statement before
    RequestId latest = noRequest, first = head;        // of this one
    for (RequestId r = head; r != noRequest; r = requests.next[r]) {
      before[r] = last;
      firstBefore[r] = lastFirst;
      if (latest == noRequest || doneAt(r) > doneAt(latest))
        latest = r;
      const RequestId next = requests.next[r];
      if (next != noRequest && requests.statement[next] != requests.statement[r]) {
        last = latest;
        lastFirst = first;
        latest = noRequest;
        first = next;
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

OpId EventGraph::opBefore(OpId op) const {
  if (op == program.deviceBegin[program.deviceOf(op)])
    return noOp;
  --op;
  while (program.ops[op].has(OverlapFollower))
    --op;
  return op;
}

EdgeKind EventGraph::kindOf(RequestId r) const {
  if (requests.isCall(r))
    return EdgeKind::Contribution;
  return messageOf(program, requests.op[r]).isGradient ? EdgeKind::Gradient : EdgeKind::Activation;
}

int64_t EventGraph::flight(RequestId r) const {
  if (requests.isCall(r))
    return timeline.done[requests.op[r]] - timeline.met[requests.op[r]];
  if (!rules.isRendezvous())
    return 0;
  const OpId send = requests.op[requests.isSend(r) ? r : requests.partner(r)];
  if (!timeline.sent.empty() && timeline.sent[send] >= 0)
    return timeline.done[send] - timeline.sent[send]; // its queueing for a lane included
  return transferOf(program, costs, messageOf(program, send));
}

} // namespace sluice
