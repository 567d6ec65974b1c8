#include "Timeline/Makeup.h"

#include "Events/Requests.h"
#include "Timeline/MessageTime.h"
#include "Timeline/SimulateEvents.h"

#include <cassert>
#include <map>

namespace sluice {

namespace {

class Splitter {
public:
  Splitter(const Program &program, const ProgramIndex &index, const CostModel &costs,
           const Timeline &timeline)
      : program(program), index(index), costs(costs), timeline(timeline), halves(program.stages) {
    makeup.stages.resize(program.stages);
  }

  Makeup split(llvm::ArrayRef<CriticalStep> path) {
    OpId before = noOp;
    for (const CriticalStep &step : path) {
      makeup.ops += step.end != step.start;
      addTransfer(step, before);
      addOp(step);
      before = step.op;
    }
    for (uint32_t stage = 0; stage < program.stages; ++stage)
      makeup.stages[stage].compute = Rational::make(halves[stage], 2).value_or(Rational());
    for (const auto &[link, part] : links) // noLink is the largest number
      makeup.links.push_back(part);
    return std::move(makeup);
  }

private:
  static bool isCollective(OpKind kind) {
    return kind == OpKind::Reduce || kind == OpKind::ReduceTied || kind == OpKind::Unshard ||
           kind == OpKind::Norm;
  }
  static bool isHost(OpKind kind) { return kind == OpKind::Offload || kind == OpKind::Reload; }

  /// The time of the op itself.
  void addOp(const CriticalStep &step) {
    const int64_t duration = step.end - step.start;
    const Op &op = program.ops[step.op];
    if (duration == 0)
      return;
    if (op.isCompute())
      return addCompute(step.op, duration);
    if (op.isCommunication())
      return addMessage(messageOf(step.op), duration, true);
    if (op.kind == OpKind::Update)
      makeup.stages[op.stage].update += duration;
    else if (isHost(op.kind))
      makeup.host += duration;
    else
      makeup.collectives += duration;
  }

  void addCompute(OpId first, int64_t duration) {
    const OpId end = program.groupEnd(first);
    const bool isOverlap = end - first > 1;
    makeup.kinds[isOverlap ? Makeup::overlap : static_cast<unsigned>(program.ops[first].kind)] += duration;
    for (OpId op = first; op != end; ++op)
      halves[program.ops[op].stage] +=
          isFused(first, end) ? duration : 2 * static_cast<__int128>(durationOf(costs, program.ops[op]));
  }

  /// Whether the model gives the time of an overlap, instead of that of its members.
  bool isFused(OpId first, OpId end) const {
    if (end - first != 2)
      return false;
    const Op *forward = &program.ops[first], *backward = forward + 1;
    if (forward->kind != OpKind::Forward)
      std::swap(forward, backward);
    return forward->kind == OpKind::Forward && backward->kind == OpKind::Backward &&
           costs.overlapped.count({forward->stage, backward->stage});
  }

  /// The time between the end of the step before and the start of the op.
  void addTransfer(const CriticalStep &step, OpId before) {
    const Op &op = program.ops[step.op];
    if (step.transfer == 0)
      return;
    if (isHost(op.kind))
      makeup.host += step.transfer;
    else if (isCollective(op.kind))
      makeup.collectives += step.transfer;
    else if (op.isCommunication())
      addWritten(step);
    else
      addMessage(inferred(step, before), step.transfer, true);
  }

  /// The message that binds an op where communication is inferred.
  Message inferred(const CriticalStep &step, OpId before) const {
    std::optional<Message> found;
    for (OpId id = step.op, end = program.groupEnd(step.op); id != end; ++id)
      for (const Edge &edge : inputsOf(program, index, program.ops[id])) {
        OpId producer = edge.from;
        while (program.ops[producer].has(OverlapFollower))
          --producer;
        if (producer != before || edge.kind != step.via)
          continue;
        const Message message{program.ops[edge.from].stage, program.ops[id].stage, program.ops[id].microbatch,
                              edge.kind == EdgeKind::Gradient};
        const int64_t own = messageTime(program, costs, message).sum();
        if (own == step.transfer)
          return message;
        if (!found && own <= step.transfer)
          found = message;
      }
    assert(found && "what binds an op is one of its inputs");
    return found.value_or(Message());
  }

  Message messageOf(OpId op) {
    if (!requests)
      addRequests();
    const RequestId r = requests->of(op);
    return sluice::messageOf(program, requests->op[requests->isSend(r) ? r : requests->partner(r)]);
  }

  /// A send, receive or wait that stood until a message had come: its own, or one in front of it.
  void addWritten(const CriticalStep &step) {
    if (!requests)
      addRequests();
    RequestId first, end;
    if (program.ops[step.op].isWait()) {
      const auto wait = llvm::lower_bound(waitOps, step.op) - waitOps.begin();
      first = requests->waits[static_cast<size_t>(wait)];
      end = first + 1;
    } else {
      first = requests->of(step.op);
      end = requests->endOfStatement(first);
    }
    RequestId last = first;
    while (last + 1 < end && timeline.done[requests->op[last]] != step.start)
      ++last;
    // A transfer that occupies its devices is the step itself.
    const bool withOwn = !step.isMove && isUnderWayUntil(last, step.start);
    addMessage(messageOf(requests->op[last]), step.transfer, withOwn);
  }

  /// Whether the message of a request has arrived at `time`, and not before.
  bool isUnderWayUntil(RequestId r, int64_t time) const {
    if (timelineRules(costs).isRendezvous())
      return true;
    if (requests->isSend(r))
      return false; // it is done once the message is stored
    const RequestId send = requests->partner(r);
    const OpId sender = requests->op[send];
    const int64_t own = messageTime(program, costs, sluice::messageOf(program, sender)).sum();
    const bool isShared = !timeline.arrived.empty() && timeline.arrived[sender] >= 0;
    return (isShared ? timeline.arrived[sender] : timeline.done[sender] + own) == time;
  }

  /// `time` on the path that ends when the message arrives, or, unless `withOwn`, before it leaves.
  void addMessage(const Message &message, int64_t time, bool withOwn) {
    const MessageTime own = messageTime(program, costs, message);
    PathLink &part = links[own.link];
    part.link = own.link;
    if (withOwn && own.sum() <= time) {
      part.latency += own.latency;
      part.moving += own.moving;
      time -= own.sum();
    }
    part.queueing += time;
  }

  void addRequests() {
    requests.emplace(program, timelineRules(costs));
    for (OpId id = 0; id < program.size(); ++id)
      if (program.ops[id].isWait() && (program.ops[id].isCommunication() || requests->joins(program.ops[id])))
        waitOps.push_back(id);
  }

  const Program &program;
  const ProgramIndex &index;
  const CostModel &costs;
  const Timeline &timeline;
  Makeup makeup;
  std::vector<__int128> halves; // of units, per stage
  std::map<uint32_t, PathLink> links;
  std::optional<Requests> requests; // where the path leads over written messages
  std::vector<OpId> waitOps;        // of Requests::waits
};

} // namespace

Rational Makeup::timeOf(uint32_t stage) const {
  return add(stages[stage].compute, Rational(stages[stage].update)).value_or(Rational());
}

int64_t Makeup::compute() const {
  int64_t sum = 0;
  for (int64_t kind : kinds)
    sum += kind;
  return sum;
}

int64_t Makeup::updates() const {
  int64_t sum = 0;
  for (const PathStage &stage : stages)
    sum += stage.update;
  return sum;
}

int64_t Makeup::transfers() const {
  int64_t sum = 0;
  for (const PathLink &link : links)
    sum += link.sum();
  return sum;
}

llvm::StringRef pathKindName(unsigned kind) {
  static constexpr const char *names[Makeup::kindCount] = {
      "forwards", "backwards", "backward inputs", "backward weights", "recomputes", "overlaps"};
  return names[kind];
}

Makeup makeupOf(const Program &program, const ProgramIndex &index, const CostModel &costs,
                const Timeline &timeline, llvm::ArrayRef<CriticalStep> path) {
  return Splitter(program, index, costs, timeline).split(path);
}

} // namespace sluice
