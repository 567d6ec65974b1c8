#include "Timeline/Simulate.h"

#include "Events/OwnMoves.h"
#include "Timeline/Extension.h"
#include "Timeline/Meetings.h"
#include "Timeline/SimulateEvents.h"
#include "Timeline/SimulationMode.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

int64_t Timeline::start(const Program &program, const CostModel &costs, OpId op) const {
  while (program.ops[op].has(OverlapFollower))
    --op;
  if (!met.empty() && occupiesFromMet(costs, program.ops[op]))
    return met[op];
  return end[op] - durationOfGroup(costs, &program.ops[op], program.groupEnd(op) - op);
}

namespace {

// What an op's slot of Timeline::end holds before the op has run: `unset`, or below it the device that
// waits for the op. More devices that wait for the same op are chained through their own state. So a wait
// costs no memory, and waking costs a look at a slot that is written anyway.
constexpr int64_t unset = Meeting::unset;
int64_t asWaiter(uint32_t device) { return unset - 1 - static_cast<int64_t>(device); }
uint32_t waiterOf(int64_t slot) { return static_cast<uint32_t>(unset - 1 - slot); }

struct DeviceState {
  OpId next = 0;
  OpId pause = 0; // the end of its program, or where it pauses before
  int64_t clock = 0;
  int64_t nextWaiter = unset;
  int64_t *standsIn = nullptr; // the slot it waits in; null in a joint call, or where it does not wait
};

using Mode = SimulationMode;

// Devices take turns: each runs until its next op lacks an input, then waits in the slot of the op that
// makes it, or in that of the message that has not arrived. When none can run, the lanes carry out their next
// event: nothing that follows from it joins a lane before it.
template <Mode mode> class Simulation {
  static constexpr bool fast = mode == Mode::Fast;

public:
  Simulation(const Program &program, const ProgramIndex &index, const CostModel &costs)
      : program(program), index(index), costs(costs), ops(program.ops.data()), ends(program.size(), unset),
        devices(program.devices), queue(program.devices) {
    for (uint32_t device = 0; device < program.devices; ++device) {
      devices[device].next = program.deviceBegin[device];
      devices[device].pause = program.deviceBegin[device + 1];
      enqueue(device);
    }
    if (Meetings::occurIn(program))
      calls.emplace(program);
    if constexpr (mode == Mode::Shared) {
      lanes.emplace(costs);
      arrivals.assign(program.size(), unset);
    }
    if (hasMovingTimes(program, costs))
      moves.emplace(program, costs, calls ? &calls->requests() : nullptr, lanes ? &*lanes : nullptr);
  }

  /// False if the program is stuck or a time has overflowed.
  bool run() {
    if constexpr (fast)
      runRepeated();
    runQueue();
    for (uint32_t device = 0; device < program.devices && !overflowed; ++device)
      if (devices[device].next != program.deviceBegin[device + 1])
        return false;
    return !overflowed;
  }

  bool hasOverflowed() const { return overflowed; }
  Timeline takeTimeline() {
    Timeline timeline;
    timeline.end = std::move(ends);
    for (uint32_t device = 0; device < program.devices; ++device)
      if (!program.opsOf(device).empty())
        timeline.makespan = std::max(timeline.makespan, timeline.end[program.deviceBegin[device + 1] - 1]);
    if (moves) {
      timeline.met = std::move(moves->met);
      timeline.done = std::move(moves->done);
      for (OpId op = 0; op < program.size(); ++op)
        if (timeline.met[op] < 0)
          timeline.met[op] = timeline.done[op] = timeline.end[op];
    }
    timeline.arrived = std::move(arrivals);
    for (const auto &[key, slot] : skipSlot)
      timeline.arrivedOverSkips[{static_cast<OpId>(key >> 16), key & 0xffff}] = skipArrivals[slot];
    return timeline;
  }

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
    case OpKind::Update:
      return costs.update.empty() ? 0 : costs.update[op.stage];
    default:
      return 0;
    }
  }

  void runQueue() {
    while (!overflowed) {
      if (queued == 0) {
        if (!lanes || lanes->isEmpty())
          break;
        settle();
        continue;
      }
      uint32_t device = queue[queueHead];
      queueHead = queueHead + 1 == queue.size() ? 0 : queueHead + 1;
      --queued;
      runDevice(device);
    }
  }

  /// Runs from one pause to the next, until all that repeats is carried over or no pause is left.
  void runRepeated() {
    std::optional<Extension> extension = Extension::of(program, index);
    if (!extension)
      return;
    std::vector<OpId> next(program.devices);
    while (pauseBefore(*extension)) {
      runQueue();
      for (uint32_t device = 0; device < program.devices; ++device)
        next[device] = devices[device].next;
      for (DeviceState &state : devices)
        if (state.standsIn && *state.standsIn < 0)
          *state.standsIn = unset;
      extension->extend(ends, next);
      goOn(next);
    }
  }
  /// False if no device pauses before the end of its program.
  bool pauseBefore(const Extension &extension) {
    bool pauses = false;
    for (uint32_t device = 0; device < program.devices; ++device) {
      devices[device].pause = extension.pauseOf(device);
      pauses |= devices[device].pause != program.deviceBegin[device + 1];
    }
    return pauses;
  }
  /// Those that stand in no joint call run on from `next`.
  void goOn(llvm::ArrayRef<OpId> next) {
    for (uint32_t device = 0; device < program.devices; ++device) {
      DeviceState &state = devices[device];
      if (!state.standsIn && state.next != state.pause)
        continue;
      if (next[device] != state.next) {
        state.next = next[device];
        state.clock = ends[next[device] - 1];
      }
      state.standsIn = nullptr;
      enqueue(device);
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
      devices[device].standsIn = nullptr;
      enqueue(device);
    }
  }
  void finish(OpId op, int64_t time) {
    int64_t waiter = ends[op];
    ends[op] = time;
    if (waiter != unset)
      wake(waiter);
    if constexpr (mode == Mode::Shared)
      handOn(op, time);
  }

  /// Moves `start` to the arrival of what `producer` makes. False, with `missing` set, if it has not run.
  bool await(OpId producer, int64_t transfer, int64_t &start) {
    if (producer == noOp)
      return true;
    int64_t end = ends[producer];
    if (end < 0) {
      missing = &ends[producer];
      return false;
    }
    start = std::max(start, plus(end, transfer));
    return true;
  }
  /// The same of what comes from another stage, over `route` of `routes`.
  bool awaitMessage(OpId producer, int64_t transfer, const StageTable<uint32_t> &routes, uint32_t column,
                    const Op &consumer, int64_t &start) {
    if constexpr (mode == Mode::Shared)
      if (producer != noOp && sharedRoute(routes, column, consumer.microbatch)) {
        int64_t &arrival = arrivalOf(producer, consumer.stage);
        if (arrival < 0)
          missing = &arrival;
        else
          start = std::max(start, arrival);
        return arrival >= 0;
      }
    return await(producer, transfer, start);
  }

  const Route *sharedRoute(const StageTable<uint32_t> &routes, uint32_t column, uint32_t microbatch) const {
    const uint32_t route = routes.empty() ? noRoute : routes.at(column, microbatch);
    return route == noRoute || costs.routes[route].lane == noLane ? nullptr : &costs.routes[route];
  }
  /// The slot of the arrival at `stage` of what `producer` makes.
  int64_t &arrivalOf(OpId producer, uint32_t stage) {
    if (ops[producer].stage + 1u == stage || stage + 1u == ops[producer].stage)
      return arrivals[producer];
    auto [found, isNew] =
        skipSlot.try_emplace(static_cast<uint64_t>(producer) << 16 | stage, skipArrivals.size());
    if (isNew)
      skipArrivals.push_back(unset);
    return skipArrivals[found->second];
  }

  /// What `op` has made joins the lanes of its messages.
  void handOn(OpId op, int64_t time) {
    const uint32_t s = ops[op].stage, m = ops[op].microbatch;
    auto join = [&](OpId consumer, const StageTable<int64_t> &transfers, const StageTable<uint32_t> &routes,
                    uint32_t column) {
      if (consumer == noOp)
        return;
      if (const Route *route = sharedRoute(routes, column, m))
        lanes->join(route->lane, time, transfers.at(column, m) - route->latency,
                    static_cast<uint64_t>(op) << 16 | ops[consumer].stage);
    };
    const bool isForward = ops[op].kind == OpKind::Forward, isGradient = ops[op].makesGradient();
    if (isForward && s + 1 < program.stages)
      join(index.forward(s + 1, m), costs.activationTransfer, costs.activationRoute, s);
    if (isGradient && s > 0)
      join(index.backward(s - 1, m), costs.gradientTransfer, costs.gradientRoute, s);
    for (size_t i = 0; i < costs.skipRoute.size(); ++i) {
      const SkipEdge &skip = program.skips[i];
      if (isForward && skip.from == s)
        join(index.forward(skip.to, m), costs.skipTransfer[i], costs.skipRoute[i], 0);
      if (isGradient && skip.to == s && skip.hasGradient)
        join(index.backward(skip.from, m), costs.skipTransfer[i], costs.skipRoute[i], 1);
    }
  }

  /// The earliest event of the lanes: what has arrived wakes those that stand for it.
  void settle() {
    const std::optional<Lanes::Served> served = lanes->advance();
    overflowed |= lanes->hasOverflowed();
    if (!served)
      return;
    const auto op = static_cast<OpId>(served->key >> 16);
    const auto toStage = static_cast<uint32_t>(served->key & 0xffff);
    if (isHostMove(ops[op])) {
      const uint32_t device = moves->settle(program.deviceOf(op), op, served->begin, served->end);
      overflowed |= moves->hasOverflowed();
      if (device == noDevice)
        return;
      DeviceState &state = devices[device];
      state.clock = std::max(state.clock, moves->done[op]);
      ends[state.next++] = state.clock;
      enqueue(device);
      return;
    }
    const Message message{ops[op].stage, toStage, ops[op].microbatch, ops[op].makesGradient()};
    int64_t &arrival = arrivalOf(op, toStage);
    const int64_t waiter = arrival;
    arrival = plus(served->end, routeOf(program, costs, message)->latency);
    wake(waiter);
  }

  bool awaitInputs(const Op &op, int64_t &start) {
    return awaitChain(op, start) && (fast || program.skips.empty() || awaitSkips(op, start));
  }
  /// What skip edges bring.
  bool awaitSkips(const Op &op, int64_t &start) {
    const uint32_t s = op.stage, m = op.microbatch;
    for (size_t i = 0; i < program.skips.size(); ++i) {
      const SkipEdge &skip = program.skips[i];
      static const StageTable<uint32_t> noRoutes;
      const StageTable<uint32_t> &routes = i < costs.skipRoute.size() ? costs.skipRoute[i] : noRoutes;
      auto transfer = [&](uint32_t column) {
        return i < costs.skipTransfer.size() ? costs.skipTransfer[i].at(column, m) : 0;
      };
      if (op.kind == OpKind::Forward && skip.to == s &&
          !awaitMessage(index.forward(skip.from, m), transfer(0), routes, 0, op, start))
        return false;
      if (op.makesGradient() && skip.from == s && skip.hasGradient &&
          !awaitMessage(index.backward(skip.to, m), transfer(1), routes, 1, op, start))
        return false;
    }
    return true;
  }
  bool awaitChain(const Op &op, int64_t &start) {
    const uint32_t s = op.stage, m = op.microbatch;
    switch (op.kind) {
    case OpKind::Forward:
      return s == 0 || awaitMessage(index.forward(s - 1, m), at(costs.activationTransfer, s - 1, m),
                                    costs.activationRoute, s - 1, op, start);
    case OpKind::Backward:
    case OpKind::BackwardInput: {
      OpId recomputed = index.recompute(s, m);
      return await(recomputed == noOp ? index.forward(s, m) : recomputed, 0, start) &&
             (s + 1 == program.stages ||
              awaitMessage(index.backward(s + 1, m), at(costs.gradientTransfer, s + 1, m),
                           costs.gradientRoute, s + 1, op, start));
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
    while (op < state.pause && !blocked) {
      if (ops[op].has(OverlapFirst))
        blocked = !runOverlap(op, clock);
      else if (ops[op].kind > OpKind::Recompute && calls && calls->joins(ops[op])) {
        if (!runCall(device, op, clock))
          return;
      } else if (ops[op].kind > OpKind::Recompute && moves && moves->isOwn(ops[op])) {
        if (!runOwnMove(device, op, clock))
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
      state.standsIn = missing;
      state.nextWaiter = *missing;
      *missing = asWaiter(device);
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
    const RequestId call = calls->next(device, ops[op]);
    if (call == noRequest)
      return false; // started nowhere: never
    Meeting &joint = calls->of(call);
    if (!ops[op].isWait() && Meetings::come(joint, clock))
      meet(joint, call);
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

  /// A collective of this device alone, or a move to or from its host, or the wait for one. As runCall.
  bool runOwnMove(uint32_t device, OpId &op, int64_t &clock) {
    const bool goesOn = moves->run(device, op, clock);
    overflowed |= moves->hasOverflowed();
    if (goesOn) {
      ends[op++] = clock;
      return true;
    }
    devices[device].next = op;
    devices[device].clock = clock;
    return false;
  }

  /// All have come: those that stand at it go on when it is done.
  void meet(Meeting &joint, RequestId call) {
    if (moves)
      overflowed |= !calls->begin(call, costs, *moves);
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
  std::optional<Meetings> calls; // where there are joint ones
  std::optional<Lanes> lanes;
  std::optional<OwnMoves> moves;             // where collectives or host moves take time
  std::vector<int64_t> arrivals;             // slots as `ends`, of the message of each op
  llvm::DenseMap<uint64_t, size_t> skipSlot; // by op and receiving stage, into:
  std::vector<int64_t> skipArrivals;
  int64_t *missing = nullptr; // the slot of what the device at hand lacks
  bool overflowed = false;
};

template <Mode mode>
std::optional<Timeline> runSimulation(const Program &program, const ProgramIndex &index,
                                      const CostModel &costs, Diagnostics &diagnostics) {
  Simulation<mode> simulation(program, index, costs);
  if (simulation.run())
    return simulation.takeTimeline();
  if (simulation.hasOverflowed())
    reportOverflow(program, costs, diagnostics);
  return std::nullopt;
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
  switch (simulationMode(program, costs)) {
  case Mode::Shared:
    return runSimulation<Mode::Shared>(program, index, costs, diagnostics);
  case Mode::Fast:
    return runSimulation<Mode::Fast>(program, index, costs, diagnostics);
  case Mode::Checked:
    break;
  }
  return runSimulation<Mode::Checked>(program, index, costs, diagnostics);
}

} // namespace sluice
