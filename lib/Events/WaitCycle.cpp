#include "Events/WaitCycle.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <utility>

namespace sluice {

namespace {

/// The stuck events of an execution, each with the stuck ones among its prerequisites. Three kinds stand for
/// all of them: the front of a device, a request that is not ready, and one that is not done. A statement
/// that is not posted yet leads straight to the front of its device.
class WaitGraph {
public:
  WaitGraph(const Requests &requests, const ChannelRules &rules, const Execution &execution)
      : requests(requests), program(requests.program), rules(rules), execution(execution),
        before(requests.size(), noRequest) {
    for (RequestId head : requests.queueHead)
      for (RequestId first = noRequest, r = head, earlier = noRequest; r != noRequest; r = requests.next[r]) {
        if (first == noRequest || requests.statement[r] != requests.statement[first])
          earlier = std::exchange(first, r);
        before[r] = earlier;
      }
    hasWait.resize(rules.progressInWait ? requests.size() : 0);
    if (rules.progressInWait)
      for (RequestId r : requests.waits)
        if (r != noRequest)
          hasWait[r] = true;
  }

  WaitCycle shortest() {
    for (uint32_t device = 0; device < program.devices; ++device)
      if (execution.isStuck(device))
        search(device);
    // Thousands of requests may hang behind one: once a cycle is known, the search for a shorter one is
    // bounded.
    constexpr uint64_t mostVisits = 3'000'000;
    for (RequestId r = 0; r < requests.size() && (!isFound || visits < mostVisits); ++r)
      if (execution.isPosted(r) && !execution.isDone(r))
        search(doneNode(r));
    std::rotate(best.begin(), std::min_element(best.begin(), best.end(), byDevice), best.end());
    return best;
  }

private:
  using Node = uint32_t;
  /// `needed`: the op that is waited for where `to` is only the front of its device; noOp if `to` says it
  /// all.
  using Visit = std::function<void(Node to, OpId needed)>;
  struct Reached {
    uint32_t hops = ~0u;
    Node from = 0;
    OpId needed = noOp;
  };

  static bool byDevice(const WaitHop &a, const WaitHop &b) { return a.device < b.device; }
  Node readyNode(RequestId r) const { return program.devices + 2 * r; }
  Node doneNode(RequestId r) const { return program.devices + 2 * r + 1; }
  bool isFront(Node n) const { return n < program.devices; }
  RequestId request(Node n) const { return (n - program.devices) / 2; }
  uint32_t device(Node n) const { return isFront(n) ? n : requests.device(request(n)); }
  /// The op that a node stands for.
  OpId op(Node n) const { return isFront(n) ? execution.fronts()[n] : requests.op[request(n)]; }

  void waitsOf(Node n, const Visit &visit) const {
    if (isFront(n))
      return waitsOfFront(n, visit);
    const RequestId r = request(n);
    n == readyNode(r) ? waitsToBeReady(r, visit) : waitsToBeDone(r, visit);
  }

  void waitsOfFront(uint32_t device, const Visit &visit) const {
    const OpId at = execution.fronts()[device];
    if (program.ops[at].isWait()) {
      const RequestId r = requests.waits[waitAt(device, at)];
      if (r != noRequest)
        visit(doneNode(r), noOp);
      return;
    }
    const RequestId first = requests.of(at);
    for (RequestId r = first, end = requests.endOfStatement(first); r < end; ++r) {
      if (!execution.isPosted(r)) // not connected with all devices it uses first
        needFirstUse(device, requests.peer(r), visit);
      else if (!execution.isDone(r))
        visit(doneNode(r), noOp);
    }
  }

  /// `peer` has to come to its own first request to `device`, if it has any.
  void needFirstUse(uint32_t device, uint32_t peer, const Visit &visit) const {
    const OpId use = firstUse(peer, device), at = execution.fronts()[peer];
    if (use != noOp && execution.isStuck(peer) && use >= program.postedEnd(at))
      visit(peer, use);
  }

  void waitsToBeReady(RequestId r, const Visit &visit) const {
    if (!execution.isPosted(r))
      return visit(requests.device(r), noOp);
    const RequestId first = before[r];
    for (RequestId other = first;
         other != noRequest && requests.statement[other] == requests.statement[first];
         other = requests.next[other])
      if (!execution.isDone(other))
        visit(doneNode(other), noOp);
    // It moves on only in its wait, if it has one (309).
    if (rules.progressInWait && requests.isStarted(r) && !execution.isAwaited(r) && hasWait[r])
      visit(requests.device(r), noOp);
  }

  void waitsToBeDone(RequestId r, const Visit &visit) const {
    needReady(r, noOp, visit);
    if (requests.isCall(r)) {
      for (RequestId other : requests.callsOf(requests.direction[r]))
        needReady(other, requests.op[other], visit);
      return;
    }
    needOtherEnd(r, visit);
    if (!rules.atomicGroups)
      return;
    needGroup(r, noOp, visit);
    if (const RequestId partner = requests.partner(r); rules.isRendezvous() && partner != noRequest)
      needGroup(partner, requests.op[partner], visit);
  }

  /// `needed`: how a finding names the other device's part, if it is another device's.
  void needReady(RequestId r, OpId needed, const Visit &visit) const {
    if (r != noRequest && !execution.isReady(r))
      visit(execution.isPosted(r) ? readyNode(r) : requests.device(r), needed);
  }
  void needDone(RequestId r, const Visit &visit) const {
    if (r != noRequest && !execution.isDone(r))
      visit(execution.isPosted(r) ? doneNode(r) : requests.device(r), requests.op[r]);
  }

  /// What request `r` must find at the other end of its channel.
  void needOtherEnd(RequestId r, const Visit &visit) const {
    const RequestId partner = requests.partner(r);
    if (rules.isRendezvous())
      needReady(partner, partner == noRequest ? noOp : requests.op[partner], visit);
    else if (!requests.isSend(r))
      needDone(partner, visit);
    else if (!rules.isUnbounded() && requests.ordinal[r] >= rules.depth)
      needDone(requests.receive(r, rules.depth), visit);
  }

  /// What every member of the group of `of` needs.
  void needGroup(RequestId of, OpId needed, const Visit &visit) const {
    const RequestId first = requests.statement[of];
    for (RequestId member = first, end = requests.endOfStatement(first); member < end; ++member) {
      needReady(member, needed, visit);
      needOtherEnd(member, visit);
    }
  }

  //===-- Looking things up: slow, and only for findings ------------------------------------------===//

  bool isWait(OpId id) const {
    const Op &entry = program.ops[id];
    return entry.isWait() && (entry.isCommunication() || requests.joins(entry));
  }
  uint32_t waitAt(uint32_t device, OpId at) const {
    uint32_t number = requests.waitBegin[device];
    for (OpId id = program.deviceBegin[device]; id < at; ++id)
      number += isWait(id);
    return number;
  }
  OpId firstUse(uint32_t device, uint32_t peer) const {
    for (RequestId r = requests.begin[device]; r < requests.begin[device + 1]; ++r)
      if (!requests.isCall(r) && requests.peer(r) == peer)
        return requests.op[r];
    return noOp;
  }
  OpId waitOf(RequestId r) const {
    const uint32_t device = requests.device(r);
    uint32_t number = requests.waitBegin[device];
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id)
      if (isWait(id) && requests.waits[number++] == r)
        return id;
    return noOp;
  }

  /// 0-1 breadth-first search for the way from a node back to it; replaces `best` if it has fewer hops.
  void search(Node start) {
    reached.clear();
    std::deque<std::pair<Node, uint32_t>> open{{start, 0}};
    Reached back;
    while (!open.empty()) {
      auto [n, hops] = open.front();
      open.pop_front();
      if (hops >= std::min(limit(), back.hops))
        continue;
      if (n != start && reached[n].hops < hops)
        continue; // found a shorter way since
      waitsOf(n, [&](Node to, OpId needed) {
        ++visits;
        const bool crosses = device(to) != device(n);
        Reached &old = to == start ? back : reached[to];
        const uint32_t total = hops + crosses;
        if (total >= old.hops || (to != start && total + (device(to) != device(start)) >= limit()))
          return;
        old = {total, n, needed};
        if (to == start)
          return;
        crosses ? open.emplace_back(to, total) : open.emplace_front(to, total);
      });
    }
    if (back.hops < limit())
      best = hopsOf(start, back);
  }
  /// Without a cycle as many as no search ever counts.
  uint32_t limit() const { return isFound ? cycleHops : ~0u; }

  /// What a hop shows for `id`, which an edge from `n` names: a started request that moves only in its wait
  /// is waited for there. A front has edges to other devices only where it connects, which starts do
  /// themselves.
  OpId nameOf(Node n, OpId id) const {
    if (!rules.progressInWait || isFront(n) || !program.ops[id].isStarted())
      return id;
    const OpId wait = waitOf(requests.of(id));
    return wait == noOp ? id : wait;
  }

  /// Walks back from the start to itself and joins what lies on one device to one hop.
  WaitCycle hopsOf(Node start, const Reached &back) {
    isFound = true;
    cycleHops = back.hops;
    // Edges in reverse: each with the node it leads to.
    std::vector<std::pair<Reached, Node>> edges{{back, start}};
    for (Node n = back.from; n != start; n = reached[n].from)
      edges.emplace_back(reached[n], n);
    std::reverse(edges.begin(), edges.end());
    WaitCycle cycle;
    // A hop begins where an edge enters its device; the start's own is closed by the last edge.
    for (const auto &[edge, to] : edges)
      if (device(edge.from) != device(to))
        cycle.push_back({device(to), noOp, nameOf(edge.from, edge.needed)});
    size_t hop = cycle.size() - 1;
    for (const auto &[edge, to] : edges)
      if (device(edge.from) != device(to)) {
        cycle[hop].stands = nameOf(edge.from, op(edge.from));
        hop = (hop + 1) % cycle.size();
      }
    // The device waits for what it has started itself, or, where groups are atomic, for what it posts later.
    if (cycle.empty())
      cycle = {{device(start), nameOf(start, op(start)),
                back.needed == noOp ? nameOf(back.from, op(back.from)) : back.needed}};
    return cycle;
  }

  const Requests &requests;
  const Program &program;
  const ChannelRules &rules;
  const Execution &execution;
  std::vector<RequestId> before; ///< Per request: the first of the statement before it at its queue.
  std::vector<bool> hasWait;     ///< Per request; only where progress is in the wait.
  llvm::DenseMap<Node, Reached> reached;
  WaitCycle best;
  uint64_t visits = 0;
  bool isFound = false;
  uint32_t cycleHops = 0;
};

} // namespace

WaitCycle shortestWaitCycle(const Requests &requests, const ChannelRules &rules, const Execution &execution) {
  return WaitGraph(requests, rules, execution).shortest();
}

} // namespace sluice
