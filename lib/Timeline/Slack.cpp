#include "Timeline/Slack.h"

#include "Timeline/EventSlack.h"
#include "Timeline/Flights.h"
#include "Timeline/SimulateEvents.h"

#include <algorithm>

namespace sluice {

namespace {

// The latest end of an op follows from the latest starts of what waits for it, and so does the latest begin
// of a collective or host move. Those are found first, down to the ops nothing waits for, on a stack of our
// own: chains are as long as programs.
class LatestEnds {
public:
  LatestEnds(const Program &program, const ProgramIndex &index, const CostModel &costs,
             const Timeline &timeline)
      : program(program), index(index), costs(costs), timeline(timeline),
        bindings(program, index, costs, timeline), flights(bindings.moves()),
        latest(program.size() + (flights ? flights->size() : 0), unknown) {}

  std::vector<int64_t> find() {
    for (OpId op = 0; op < program.size(); op = program.groupEnd(op)) {
      pending.push_back(op);
      while (!pending.empty())
        if (pending.back() < program.size())
          advance(pending.back());
        else
          advanceFlight(pending.back());
    }
    latest.resize(program.size());
    return std::move(latest);
  }

private:
  static constexpr int64_t unknown = -1;

  /// Settles `first` and takes it off the stack, or puts on it something that must be settled before.
  void advance(OpId first) {
    const OpId end = program.groupEnd(first);
    int64_t bound = timeline.makespan;
    bool known =
        latest[first] != unknown || (limitByNext(first, bound) && limitByConsumers(first, end, bound));
    if (!known)
      return;
    pending.pop_back();
    if (latest[first] == unknown)
      std::fill(latest.begin() + first, latest.begin() + end, bound);
  }

  /// Lowers `bound` to the latest start of the group at `waiting`; false if that is not known yet.
  bool limit(OpId waiting, int64_t transfer, int64_t &bound) {
    if (waiting == noOp)
      return true;
    while (program.ops[waiting].has(OverlapFollower))
      --waiting;
    if (latest[waiting] == unknown) {
      pending.push_back(waiting);
      return false;
    }
    const int64_t duration = timeline.end[waiting] - bindings.start(waiting);
    bound = std::min(bound, latest[waiting] - duration - transfer);
    return true;
  }
  bool limitByNext(OpId first, int64_t &bound) {
    const OpId next = program.groupEnd(first);
    if (next == program.deviceBegin[program.deviceOf(first) + 1])
      return true;
    // What comes before one device's call holds up all who make it together.
    return limitByFlight(next, bound) && limit(next, 0, bound);
  }
  /// The collective or host move that `op` is must not begin later than it may.
  bool limitByFlight(OpId op, int64_t &bound) {
    const uint32_t flight = flights && !program.ops[op].isWait() ? flights->of(op) : Flights::none;
    if (flight == Flights::none)
      return true;
    const uint32_t node = program.size() + flight;
    if (latest[node] == unknown) {
      pending.push_back(node);
      return false;
    }
    bound = std::min(bound, latest[node]);
    return true;
  }
  /// The latest begin of a collective or host move: of its devices each goes on when it is done, and then the
  /// next in its queue begins.
  void advanceFlight(uint32_t node) {
    const Flights::Flight &flight = (*flights)[node - program.size()];
    int64_t bound = timeline.makespan - flight.time();
    if (latest[node] == unknown) {
      for (const Flights::Member &member : flights->membersOf(node - program.size()))
        if (!limit(member.goesOn, member.goesOn == member.op ? 0 : flight.time(), bound))
          return;
      if (flight.behind != Flights::none) {
        const uint32_t behind = program.size() + flight.behind;
        if (latest[behind] == unknown)
          return pending.push_back(behind);
        bound = std::min(bound, latest[behind] - flight.time());
      }
      latest[node] = bound;
    }
    pending.pop_back();
  }
  bool limitByConsumers(OpId first, OpId end, int64_t &bound) {
    if (program.ops[first].isStarted() && !limitByFlight(first, bound))
      return false;
    for (OpId id = first; id < end; ++id) {
      const Op &op = program.ops[id];
      const uint32_t s = op.stage, m = op.microbatch;
      if (op.kind == OpKind::Forward && s + 1 < program.stages &&
          !limit(index.forward(s + 1, m), costs.activationTransfer.at(s, m), bound))
        return false;
      for (const SkipEdge &skip : program.skips) {
        if (op.kind == OpKind::Forward && skip.from == s &&
            !limit(index.forward(skip.to, m), transferOf(program, costs, op, skip.to), bound))
          return false;
        if (op.makesGradient() && skip.to == s && skip.hasGradient &&
            !limit(index.backward(skip.from, m), transferOf(program, costs, op, skip.from), bound))
          return false;
      }
      const bool makesGradient = op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput;
      if (makesGradient && s > 0 && !limit(index.backward(s - 1, m), costs.gradientTransfer.at(s, m), bound))
        return false;
    }
    return true;
  }
  const Program &program;
  const ProgramIndex &index;
  const CostModel &costs;
  const Timeline &timeline;
  Bindings bindings;
  const Flights *flights;
  std::vector<int64_t> latest;   // ends of ops, then begins of flights
  std::vector<uint32_t> pending; // of those
};

} // namespace

std::vector<int64_t> slacks(const Program &program, const ProgramIndex &index, const CostModel &costs,
                            const Timeline &timeline) {
  if (costs.laneCount > 0)
    return {};
  std::vector<int64_t> result = program.isExplicit ? latestEnds(program, index, costs, timeline)
                                                   : LatestEnds(program, index, costs, timeline).find();
  for (OpId op = 0; op < program.size(); ++op)
    result[op] -= timeline.end[op];
  return result;
}

} // namespace sluice
