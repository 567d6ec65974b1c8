#include "Timeline/Slack.h"

#include "Timeline/SimulateEvents.h"

#include <algorithm>

namespace sluice {

namespace {

// The latest end of an op follows from the latest starts of what waits for it. Those are found first, down to
// the ops nothing waits for, on a stack of our own: chains are as long as programs.
class LatestEnds {
public:
  LatestEnds(const Program &program, const ProgramIndex &index, const CostModel &costs,
             const Timeline &timeline)
      : program(program), index(index), costs(costs), timeline(timeline),
        bindings(program, index, costs, timeline), latest(program.size(), unknown) {}

  std::vector<int64_t> find() {
    for (OpId op = 0; op < program.size(); op = program.groupEnd(op)) {
      pending.push_back(op);
      while (!pending.empty())
        advance(pending.back());
    }
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
    for (OpId member : bindings.jointEnds(next))
      if (!limit(member, 0, bound))
        return false;
    return limit(next, 0, bound);
  }
  bool limitByConsumers(OpId first, OpId end, int64_t &bound) {
    if (program.ops[first].isStarted())
      for (OpId member : bindings.jointEnds(first))
        if (member != first && !limit(member, 0, bound))
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
  std::vector<int64_t> latest;
  std::vector<OpId> pending;
};

} // namespace

std::vector<int64_t> slacks(const Program &program, const ProgramIndex &index, const CostModel &costs,
                            const Timeline &timeline) {
  if (program.isExplicit)
    return {};
  std::vector<int64_t> result = LatestEnds(program, index, costs, timeline).find();
  for (OpId op = 0; op < program.size(); ++op)
    result[op] -= timeline.end[op];
  return result;
}

} // namespace sluice
