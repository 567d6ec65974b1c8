#include "Timeline/EventSlack.h"

#include "Timeline/EventGraph.h"
#include "Timeline/Flights.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace sluice {

namespace {

// Events are the ends of ops, of overlaps and groups by the first, then the ends of requests, then those of
// the collectives and host moves of one device. Each is an earliest time above its prerequisites, so the
// latest times follow in the reverse of an order in which prerequisites come first.
class EventTails {
public:
  EventTails(const Program &program, const ProgramIndex &index, const CostModel &costs,
             const Timeline &timeline)
      : program(program), timeline(timeline), graph(program, costs, timeline),
        bindings(program, index, costs, timeline), flights(bindings.moves()),
        latest(program.size() + graph.requests.size() + (flights ? flights->size() : 0), timeline.makespan),
        costs(costs) {}

  std::vector<int64_t> find() {
    const std::vector<uint32_t> order = inOrder();
    for (size_t i = order.size(); i-- > 0;)
      eachNeed(order[i], [&](uint32_t need, int64_t behind) {
        latest[need] = std::min(latest[need], latest[order[i]] - behind);
      });
    latest.resize(program.size());
    for (OpId op = 0; op < program.size(); ++op)
      if (program.ops[op].has(OverlapFollower) || program.ops[op].has(GroupFollower))
        latest[op] = latest[op - 1];
    return std::move(latest);
  }

private:
  uint32_t eventOf(RequestId r) const { return program.size() + r; }
  uint32_t eventOfFlight(uint32_t flight) const { return program.size() + graph.requests.size() + flight; }

  /// Prerequisites first: a walk in depth, with a stack of our own.
  std::vector<uint32_t> inOrder() const {
    std::vector<uint32_t> order, stack;
    std::vector<uint8_t> state(latest.size()); // 1: its needs are on the stack, 2: in order
    for (OpId op = 0; op < program.size(); ++op) {
      if (program.ops[op].has(OverlapFollower) || program.ops[op].has(GroupFollower))
        continue;
      stack.push_back(op);
      while (!stack.empty()) {
        const uint32_t event = stack.back();
        if (state[event] == 0) {
          state[event] = 1;
          eachNeed(event, [&](uint32_t need, int64_t) {
            if (state[need] == 0)
              stack.push_back(need);
          });
          continue;
        }
        stack.pop_back();
        if (state[event] == 1)
          order.push_back(event);
        state[event] = 2;
      }
    }
    return order;
  }

  template <typename Visit> void eachNeed(uint32_t event, Visit visit) const {
    if (event < program.size())
      needsOfOp(event, visit);
    else if (event < program.size() + graph.requests.size())
      needsOfRequest(event - program.size(), visit);
    else
      needsOfFlight(event - program.size() - graph.requests.size(), visit);
  }

  /// Adds to each prerequisite what follows it.
  template <typename Visit> struct Sink {
    const EventTails &of;
    Visit &visit;
    int64_t behind;
    void op(OpId id, EdgeKind) {
      if (id != noOp)
        visit(of.firstOf(id), behind);
    }
    void request(RequestId r) { request(r, behind); }
    void request(RequestId r, int64_t time) { visit(of.eventOf(r), time); }
    void queue(RequestId r) {
      const Requests &all = of.graph.requests;
      const RequestId first = of.graph.firstBefore[r];
      for (RequestId each = first; each != noRequest && all.statement[each] == all.statement[first];
           each = all.next[each])
        request(each);
    }
  };
  OpId firstOf(OpId op) const {
    while (program.ops[op].has(OverlapFollower) || program.ops[op].has(GroupFollower))
      --op;
    return op;
  }

  template <typename Visit> void needsOfOp(OpId op, Visit &visit) const {
    const Op &entry = program.ops[op];
    const OpId before = graph.opBefore(op);
    const bool isRequest = entry.isCommunication() || graph.requests.joins(entry);
    const uint32_t flight = flights ? flights->of(op) : Flights::none;
    if (isRequest && entry.isWait()) {
      const auto wait =
          std::lower_bound(graph.waitOps.begin(), graph.waitOps.end(), op) - graph.waitOps.begin();
      visit(eventOf(graph.requests.waits[static_cast<size_t>(wait)]), 0);
    } else if (isRequest) {
      const RequestId r = graph.requests.of(op);
      Sink<Visit> sink{*this, visit, 0};
      graph.beginOf(r, sink);
      if (!entry.isStarted())
        for (RequestId member = r, end = graph.requests.endOfStatement(r); member < end; ++member)
          visit(eventOf(member), 0);
    } else if (flight != Flights::none && !entry.isStarted()) {
      visit(eventOfFlight(flight), 0);
    }
    if (before != noOp)
      visit(firstOf(before), isRequest || flight != Flights::none
                                 ? 0
                                 : durationOfGroup(costs, &program.ops[op], program.groupEnd(op) - op));
  }

  template <typename Visit> void needsOfRequest(RequestId r, Visit &visit) const {
    Sink<Visit> sink{*this, visit, graph.flight(r)};
    graph.eachPrerequisite(r, sink);
    // What a start posts is not ready before it: a later start is a later message.
    const Requests &all = graph.requests;
    auto postedBy = [&](RequestId each) {
      if (all.isStarted(each))
        visit(firstOf(all.op[each]), graph.flight(r));
    };
    auto postedWith = [&](RequestId each) {
      if (!timelineRules(costs).atomicGroups)
        return postedBy(each);
      for (RequestId member = all.statement[each], end = all.endOfStatement(member); member < end; ++member)
        postedBy(member);
    };
    if (all.isCall(r)) {
      llvm::for_each(all.callsOf(all.direction[r]), postedBy);
      return;
    }
    postedWith(r);
    if (timelineRules(costs).isRendezvous())
      postedWith(all.partner(r));
  }

  template <typename Visit> void needsOfFlight(uint32_t number, Visit &visit) const {
    const Flights::Flight &flight = (*flights)[number];
    for (const Flights::Member &member : flights->membersOf(number)) {
      if (program.ops[member.op].isStarted())
        visit(member.op, flight.time());
      if (const OpId before = graph.opBefore(member.op); before != noOp)
        visit(firstOf(before), flight.time());
    }
    if (flight.before != Flights::none)
      visit(eventOfFlight(flight.before), flight.time());
  }

  const Program &program;
  const Timeline &timeline;
  const EventGraph graph;
  const Bindings bindings;
  const Flights *flights;
  std::vector<int64_t> latest;
  const CostModel &costs;
};

} // namespace

std::vector<int64_t> latestEnds(const Program &program, const ProgramIndex &index, const CostModel &costs,
                                const Timeline &timeline) {
  return EventTails(program, index, costs, timeline).find();
}

} // namespace sluice
