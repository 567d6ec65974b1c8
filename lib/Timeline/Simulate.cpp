#include "Timeline/Simulate.h"

#include "Events/Requests.h"
#include "Timeline/SimulateEvents.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

int64_t Timeline::start(const Program &program, const CostModel &costs, OpId op) const {
  while (program.ops[op].has(OverlapFollower))
    --op;
  return end[op] - durationOfGroup(costs, &program.ops[op], program.groupEnd(op) - op);
}

namespace {

// What an op's slot of Timeline::end holds before the op has run: `unset`, or below it the device that
// waits for the op. More devices that wait for the same op are chained through their own state. So a wait
// costs no memory, and waking costs a look at a slot that is written anyway.
constexpr int64_t unset = -1;
int64_t asWaiter(uint32_t device) { return unset - 1 - static_cast<int64_t>(device); }
uint32_t waiterOf(int64_t slot) { return static_cast<uint32_t>(unset - 1 - slot); }

struct DeviceState {
  OpId next = 0;
  OpId programEnd = 0;
  int64_t clock = 0;
  int64_t nextWaiter = unset;
};

// One call of a reduction, tied weight or norm that several devices make together. Calls over the same
// devices stand in one order on all of them, so none is held up by the one before it.
struct Joint {
  uint32_t absent = 0;
  int64_t latest = 0;
  int64_t waiters = unset; // devices that stand at it or at its wait
};
bool hasJointCalls(const Program &program) {
  return llvm::any_of(program.ops, [&](const Op &op) {
    return op.kind >= OpKind::ReduceTied || (op.kind == OpKind::Reduce && program.placement.rowCount() > 1);
  });
}

// Devices take turns: each runs until its next op lacks an input, then waits in the slot of the op that
// makes it. `fast` stands for costs that no microbatch changes and sums that cannot overflow.
template <bool fast> class Simulation {
public:
  Simulation(const Program &program, const ProgramIndex &index, const CostModel &costs)
      : program(program), index(index), costs(costs), ops(program.ops.data()), ends(program.size(), unset),
        devices(program.devices), queue(program.devices) {
    for (uint32_t device = 0; device < program.devices; ++device) {
      devices[device].next = program.deviceBegin[device];
      devices[device].programEnd = program.deviceBegin[device + 1];
      enqueue(device);
    }
    if (!hasJointCalls(program))
      return;
    calls.emplace(program, ChannelRules());
    nextCall.assign(calls->begin.begin(), calls->begin.end() - 1);
    nextWait.assign(calls->waitBegin.begin(), calls->waitBegin.end() - 1);
    joints.resize(calls->meetingCount());
    for (uint32_t i = 0; i < joints.size(); ++i)
      joints[i].absent = static_cast<uint32_t>(calls->membersOf(calls->callsOf(i).front()).size());
  }

  /// False if the program is stuck or a time has overflowed.
  bool run() {
    while (queued > 0 && !overflowed) {
      uint32_t device = queue[queueHead];
      queueHead = queueHead + 1 == queue.size() ? 0 : queueHead + 1;
      --queued;
      runDevice(device);
    }
    return !overflowed &&
           llvm::all_of(devices, [](const DeviceState &state) { return state.next == state.programEnd; });
  }

  bool hasOverflowed() const { return overflowed; }
  std::vector<int64_t> takeEnds() { return std::move(ends); }

private:
  int64_t at(const StageTable<int64_t> &table, uint32_t stage, uint32_t microbatch) const {
    return fast ? table.inRow(0, stage) : table.at(stage, microbatch);
  }
  int64_t plus(int64_t a, int64_t b) {
    if constexpr (fast)
      return a + b;
    int64_t sum = 0;
    overflowed |= __builtin_add_overflow(a, b, &sum);
    return sum;
  }
  int64_t duration(const Op &op) const {
    if constexpr (!fast)
      return durationOf(costs, op);
    switch (op.kind) {
    case OpKind::Forward:
      return costs.forward.inRow(0, op.stage);
    case OpKind::Backward:
      return costs.backward.inRow(0, op.stage);
    case OpKind::BackwardInput:
      return costs.backwardInput.inRow(0, op.stage);
    case OpKind::BackwardWeight:
      return costs.backwardWeight.inRow(0, op.stage);
    case OpKind::Recompute:
      return costs.recompute.inRow(0, op.stage);
    default:
      return 0;
    }
  }

  void enqueue(uint32_t device) {
    size_t slot = queueHead + queued++;
    queue[slot < queue.size() ? slot : slot - queue.size()] = device;
  }
  void wake(int64_t waiter) {
    while (waiter != unset) {
      uint32_t device = waiterOf(waiter);
      waiter = devices[device].nextWaiter;
      enqueue(device);
    }
  }
  void finish(OpId op, int64_t time) {
    int64_t waiter = ends[op];
    ends[op] = time;
    if (waiter != unset)
      wake(waiter);
  }

  /// Moves `start` to the arrival of what `producer` makes. False, with `missing` set, if it has not run.
  bool await(OpId producer, int64_t transfer, int64_t &start) {
    if (producer == noOp)
      return true;
    int64_t end = ends[producer];
    if (end < 0) {
      missing = producer;
      return false;
    }
    start = std::max(start, plus(end, transfer));
    return true;
  }
  bool awaitInputs(const Op &op, int64_t &start) {
    return awaitChain(op, start) && (fast || program.skips.empty() || awaitSkips(op, start));
  }
  /// What skip edges bring.
  bool awaitSkips(const Op &op, int64_t &start) {
    const uint32_t s = op.stage, m = op.microbatch;
    for (size_t i = 0; i < program.skips.size(); ++i) {
      const SkipEdge &skip = program.skips[i];
      auto transfer = [&](uint32_t column) {
        return i < costs.skipTransfer.size() ? costs.skipTransfer[i].at(column, m) : 0;
      };
      if (op.kind == OpKind::Forward && skip.to == s &&
          !await(index.forward(skip.from, m), transfer(0), start))
        return false;
      if (op.makesGradient() && skip.from == s && skip.hasGradient &&
          !await(index.backward(skip.to, m), transfer(1), start))
        return false;
    }
    return true;
  }
  bool awaitChain(const Op &op, int64_t &start) {
    const uint32_t s = op.stage, m = op.microbatch;
    switch (op.kind) {
    case OpKind::Forward:
      return s == 0 || await(index.forward(s - 1, m), at(costs.activationTransfer, s - 1, m), start);
    case OpKind::Backward:
    case OpKind::BackwardInput: {
      OpId recomputed = index.recompute(s, m);
      return await(recomputed == noOp ? index.forward(s, m) : recomputed, 0, start) &&
             (s + 1 == program.stages ||
              await(index.backward(s + 1, m), at(costs.gradientTransfer, s + 1, m), start));
    }
    case OpKind::BackwardWeight:
      return await(index.backward(s, m), 0, start);
    case OpKind::Recompute:
      return await(index.forward(s, m), 0, start);
    default:
      return true;
    }
  }

  void runDevice(uint32_t device) {
    DeviceState &state = devices[device];
    OpId op = state.next;
    int64_t clock = state.clock;
    bool blocked = false;
    while (op != state.programEnd && !blocked) {
      if (ops[op].has(OverlapFirst))
        blocked = !runOverlap(op, clock);
      else if (calls && calls->joins(ops[op])) {
        if (!runCall(device, op, clock))
          return;
      } else if (awaitInputs(ops[op], clock)) {
        clock = plus(clock, duration(ops[op]));
        finish(op++, clock);
      } else
        blocked = true;
    }
    state.next = op;
    // A wait may have moved the clock to an input that has arrived: harmless, the op starts no earlier.
    state.clock = clock;
    if (blocked) {
      state.nextWaiter = ends[missing];
      ends[missing] = asWaiter(device);
    }
  }

  bool runOverlap(OpId &first, int64_t &clock) {
    OpId end = program.groupEnd(first);
    for (OpId op = first; op != end; ++op)
      if (!awaitInputs(ops[op], clock))
        return false;
    clock = plus(clock, durationOfGroup(costs, &ops[first], end - first));
    for (; first != end; ++first)
      finish(first, clock);
    return true;
  }

  /// A joint call, or the wait for a started one. Moves on, or leaves the device standing at it and returns
  /// false.
  bool runCall(uint32_t device, OpId &op, int64_t &clock) {
    const RequestId call = ops[op].isWait() ? calls->waits[nextWait[device]++] : nextCall[device]++;
    if (call == noRequest)
      return false; // started nowhere: never
    Joint &joint = joints[calls->direction[call]];
    if (!ops[op].isWait()) {
      joint.latest = std::max(joint.latest, clock);
      if (--joint.absent == 0)
        meet(joint);
    }
    if (!ops[op].isStarted() && joint.absent > 0) {
      devices[device].next = op;
      devices[device].clock = clock;
      devices[device].nextWaiter = joint.waiters;
      joint.waiters = asWaiter(device);
      return false;
    }
    if (!ops[op].isStarted())
      clock = std::max(clock, joint.latest);
    ends[op++] = clock; // nothing waits for a call but the joint itself
    return true;
  }

  /// All have come: those that stand at it go on.
  void meet(Joint &joint) {
    for (int64_t waiter = joint.waiters; waiter != unset; waiter = devices[waiterOf(waiter)].nextWaiter) {
      DeviceState &member = devices[waiterOf(waiter)];
      member.clock = std::max(member.clock, joint.latest);
      ends[member.next++] = member.clock;
    }
    wake(joint.waiters);
  }

  const Program &program;
  const ProgramIndex &index;
  const CostModel &costs;
  const Op *ops;
  std::vector<int64_t> ends;
  std::vector<DeviceState> devices;
  std::vector<uint32_t> queue; // ring: a device is in it at most once
  size_t queueHead = 0, queued = 0;
  std::optional<Requests> calls; // where there are joint ones
  std::vector<Joint> joints;     // by meeting
  std::vector<RequestId> nextCall;
  std::vector<uint32_t> nextWait;
  OpId missing = noOp;
  bool overflowed = false;
};

int64_t largest(const StageTable<int64_t> &table) {
  int64_t result = 0;
  for (uint32_t row = 0; row < table.rowCount(); ++row)
    for (uint32_t stage = 0; stage < table.stageCount(); ++stage)
      result = std::max(result, table.inRow(row, stage));
  return result;
}

// No path through the program is longer than all its ops and transfers one after the other.
bool fitsAnyway(const Program &program, const CostModel &costs) {
  __int128 longest = 0;
  for (const auto *table :
       {&costs.forward, &costs.backward, &costs.backwardInput, &costs.backwardWeight, &costs.recompute})
    longest = std::max<__int128>(longest, largest(*table));
  for (const auto &[pair, duration] : costs.overlapped)
    longest = std::max<__int128>(longest, duration);
  longest += std::max(largest(costs.activationTransfer), largest(costs.gradientTransfer));
  return longest * (program.size() + 1) <= INT64_MAX;
}

bool isUniform(const CostModel &costs) {
  for (const auto *table : {&costs.forward, &costs.backward, &costs.backwardInput, &costs.backwardWeight,
                            &costs.recompute, &costs.activationTransfer, &costs.gradientTransfer})
    if (table->rowCount() > 1)
      return false;
  return true;
}

template <bool fast>
std::optional<Timeline> runSimulation(const Program &program, const ProgramIndex &index,
                                      const CostModel &costs, Diagnostics &diagnostics) {
  Simulation<fast> simulation(program, index, costs);
  if (!simulation.run()) {
    if (simulation.hasOverflowed())
      reportOverflow(program, costs, diagnostics);
    return std::nullopt;
  }
  Timeline timeline;
  timeline.end = simulation.takeEnds();
  for (uint32_t device = 0; device < program.devices; ++device)
    if (!program.opsOf(device).empty())
      timeline.makespan = std::max(timeline.makespan, timeline.end[program.deviceBegin[device + 1] - 1]);
  return timeline;
}

} // namespace

void reportOverflow(const Program &program, const CostModel &costs, Diagnostics &diagnostics) {
  diagnostics.report(Rule::ValueOutOfRange, program.span,
                     {{"what", fmt::format("a time of {} overflows: its ops and transfers add up to more "
                                           "than 2^63 - 1 units of {} {}",
                                           program.name, costs.unit.str(), costs.ticks ? "tick" : "ns")}});
}

std::optional<Timeline> simulate(const Program &program, const ProgramIndex &index, const CostModel &costs,
                                 Diagnostics &diagnostics) {
  if (program.isExplicit)
    return simulateEvents(program, costs, diagnostics);
  if (isUniform(costs) && program.skips.empty() && fitsAnyway(program, costs))
    return runSimulation<true>(program, index, costs, diagnostics);
  return runSimulation<false>(program, index, costs, diagnostics);
}

} // namespace sluice
