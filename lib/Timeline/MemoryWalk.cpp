#include "Timeline/MemoryWalk.h"

#include "Events/Messages.h"
#include "Timeline/SimulateEvents.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <tuple>

namespace sluice {

static bool isZero(const StageTable<int64_t> &sizes) {
  return llvm::all_of(sizes.all(), [](int64_t bytes) { return bytes == 0; });
}

MemoryWalk::MemoryWalk(const Program &program, const ProgramIndex &index, const CostModel &costs,
                       const Timeline &timeline, const Versions *versions, const Steady *repeated)
    : program(program), index(index), costs(costs), timeline(timeline), versions(versions),
      repeated(repeated),
      countsBoundaries(!isZero(costs.boundary) || !llvm::all_of(costs.skipBoundary, isZero)),
      localOf(program.stages) {
  if (!costs.skipBoundary.empty()) {
    skipsInto.resize(program.stages);
    skipsFrom.resize(program.stages);
    for (uint32_t i = 0; i < program.skips.size(); ++i) {
      skipsInto[program.skips[i].to].push_back(i);
      if (program.skips[i].hasGradient)
        skipsFrom[program.skips[i].from].push_back(i);
    }
  }
  if (costs.keepsContributions)
    hasZero = llvm::any_of(program.ops, [](const Op &op) { return op.kind == OpKind::Zero; });
}

DeviceMemory MemoryWalk::peaksOf(uint32_t device, int64_t most) {
  listedMoment = 0;
  limit = most;
  walk(device);
  return peaks;
}

std::vector<MemoryPoint> MemoryWalk::curveOf(uint32_t device) {
  std::vector<MemoryPoint> points;
  curve = &points;
  peaksOf(device);
  curve = nullptr;
  return points;
}

std::vector<LiveItem> MemoryWalk::liveAt(uint32_t device, uint64_t asked) {
  listedMoment = asked;
  walk(device);
  if (!costs.reserved.empty() && costs.reserved[device] != 0)
    peaks.livePeak.push_back({LiveKind::Reserved, noStage, 1, costs.reserved[device]});
  llvm::sort(peaks.livePeak, [](const LiveItem &a, const LiveItem &b) {
    return std::tuple(-a.bytes, a.kind, a.stage) < std::tuple(-b.bytes, b.kind, b.stage);
  });
  return std::move(peaks.livePeak);
}

void MemoryWalk::raiseInFlight(std::vector<uint32_t> &inFlight) const {
  for (const Live &local : locals)
    inFlight[local.stage] = std::max(inFlight[local.stage], local.mostInFlight);
}

void MemoryWalk::begin(uint32_t device) {
  findStages(device);
  states.assign(locals.size() * program.microbatches, State::None);
  nextArrival = 0;
  activations = saved = pending = 0;
  total = 0;
  moment = excessMoment = 0;
  peaks = {};
  peaks.peakBytes = -1; // so that the first measurement counts
  addStatics(device);
}

/// The stages with ops here. A norm has none, and a tied weight's reduction may name another device's.
void MemoryWalk::findStages(uint32_t device) {
  constexpr uint32_t none = ~0u;
  std::fill(localOf.begin(), localOf.end(), none);
  locals.clear();
  changesStatics = costs.keepsContributions;
  for (const Op &op : program.opsOf(device)) {
    if (op.kind >= OpKind::ReduceTied)
      continue;
    if (localOf[op.stage] == none) {
      localOf[op.stage] = static_cast<uint32_t>(locals.size());
      locals.emplace_back().stage = op.stage;
    }
    if (op.kind < OpKind::Reduce)
      continue;
    Live &local = live(op.stage);
    local.unshards |= op.kind == OpKind::Unshard;
    local.reshards |= op.kind == OpKind::Reshard;
    local.reduces |= op.kind == OpKind::Reduce;
    changesStatics |= op.kind == OpKind::Unshard;
  }
  // What the step before has left: a stage that no op gathers is always present.
  for (Live &local : locals)
    local.isPresent = !local.unshards || !(local.reshards || (costs.reshardsAfterReduce && local.reduces));
}

int64_t MemoryWalk::times(int64_t bytes, uint32_t count) {
  int64_t product = 0;
  overflowed |= __builtin_mul_overflow(bytes, static_cast<int64_t>(count), &product);
  return product;
}

/// One replica's part, rounded up.
int64_t MemoryWalk::shard(int64_t bytes) const {
  const int64_t replicas = costs.replicas.value_or(1);
  return bytes / replicas + (bytes % replicas != 0);
}

int64_t MemoryWalk::weightBytes(const Live &local) {
  const int64_t bytes = costs.weights[local.stage];
  return local.isPresent ? times(bytes, local.versions) : times(bytes, local.versions - 1) + shard(bytes);
}

int64_t MemoryWalk::optimizerBytes(uint32_t stage) const {
  return costs.isSharded ? shard(costs.optimizerState[stage]) : costs.optimizerState[stage];
}

void MemoryWalk::recount(Live &local) {
  int64_t bytes = weightBytes(local);
  overflowed |=
      __builtin_add_overflow(bytes, times(costs.gradients[local.stage], local.sets.count()), &bytes) ||
      __builtin_add_overflow(bytes, optimizerBytes(local.stage), &bytes) ||
      __builtin_add_overflow(total, bytes - local.statics, &total);
  local.statics = bytes;
}

void MemoryWalk::addStatics(uint32_t device) {
  for (Live &local : locals)
    recount(local);
  if (!costs.reserved.empty())
    overflowed |= __builtin_add_overflow(total, costs.reserved[device], &total);
}

/// Behind an op its copy may keep fewer versions, or one more if it is an update.
void MemoryWalk::keepVersions(OpId id) {
  const Op &op = program.ops[id];
  if (op.kind >= OpKind::ReduceTied || live(op.stage).versions == versions->kept[id])
    return;
  live(op.stage).versions = versions->kept[id];
  recount(live(op.stage));
}

/// Gathered weights, and a gradient set of its own, come with the start of an op.
void MemoryWalk::beginStatics(const Op &op) {
  if (op.kind >= OpKind::ReduceTied)
    return;
  Live &local = live(op.stage);
  if (costs.keepsContributions)
    local.sets.begin(op);
  local.isPresent |= op.kind == OpKind::Unshard && !op.isWait();
  recount(local);
}

void MemoryWalk::endStatics(const Op &op) {
  if (op.kind >= OpKind::ReduceTied)
    return;
  Live &local = live(op.stage);
  if (costs.keepsContributions)
    local.sets.end(op, hasZero);
  const bool isReduced = op.kind == OpKind::Reduce && !op.isStarted() && costs.reshardsAfterReduce;
  if (local.unshards && (op.kind == OpKind::Reshard || isReduced))
    local.isPresent = false;
  recount(local);
}

bool MemoryWalk::receives(EdgeKind kind, const Op &op) const {
  const uint32_t s = op.stage, m = op.microbatch;
  if (kind == EdgeKind::Activation)
    return op.kind == OpKind::Forward && s > 0 && program.deviceOf(s - 1, m) != program.deviceOf(s, m) &&
           index.forward(s - 1, m) != noOp;
  return (op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput) && !isLast(op) &&
         program.deviceOf(s + 1, m) != program.deviceOf(s, m) && index.backward(s + 1, m) != noOp;
}

void MemoryWalk::releaseReceived(EdgeKind kind, const Op &op) {
  const LiveKind live =
      kind == EdgeKind::Activation ? LiveKind::ReceivedActivation : LiveKind::ReceivedGradient;
  eachReceived(kind, op, [&](OpId, int64_t bytes) { release(live, op.stage, bytes); });
}

static std::pair<uint64_t, uint32_t> keyOf(const Message &message) {
  return {static_cast<uint64_t>(message.isGradient) << 48 | static_cast<uint64_t>(message.from) << 32 |
              message.microbatch,
          message.to};
}

void MemoryWalk::findReceives(uint32_t device) {
  receivedFrom.clear();
  for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
    const Op &op = program.ops[id];
    if (op.isCommunication() && !op.isSend() && !op.isWait())
      receivedFrom.try_emplace(keyOf(messageOf(program, id)), timeline.met[id]);
  }
}

/// When the transfer of what `producer` makes starts. A written one needs its receive as well; a value that
/// is sent and received by nobody is there at once.
int64_t MemoryWalk::underWaySince(OpId producer, uint32_t consumerStage) const {
  const Op &op = program.ops[producer];
  if (!receivedFrom.empty()) {
    auto found = receivedFrom.find(keyOf({op.stage, consumerStage, op.microbatch, op.makesGradient()}));
    if (found != receivedFrom.end())
      return found->second;
  }
  if (timeline.arrived.empty())
    return timeline.end[producer];
  // On a lane that serves in order it may stand in line first.
  const Route *shared =
      sharedRouteOf(program, costs, {op.stage, consumerStage, op.microbatch, op.makesGradient()});
  if (!shared || costs.links[shared->link].sharing != Sharing::Fifo)
    return timeline.end[producer];
  return arrivalOf(program, costs, timeline, producer, consumerStage) -
         transferOf(program, costs, op, consumerStage);
}

void MemoryWalk::collectAllArrivals(uint32_t device) {
  if (arrivalsOf == device)
    return;
  if (!timeline.met.empty())
    findReceives(device);
  collectArrivals({{program.deviceBegin[device], program.deviceBegin[device + 1]}});
  arrivalsOf = device;
}

/// Of what the ops of these ranges receive.
void MemoryWalk::collectArrivals(llvm::ArrayRef<std::pair<OpId, OpId>> consumers) {
  arrivals.clear();
  arrivalsOf = noDevice;
  if (!countsBoundaries)
    return;
  auto collect = [&](EdgeKind edge, LiveKind kind) {
    for (auto [begin, end] : consumers)
      for (OpId id = begin; id < end; ++id) {
        const Op &op = program.ops[id];
        eachReceived(edge, op, [&](OpId producer, int64_t bytes) {
          arrivals.push_back({underWaySince(producer, op.stage), bytes, id, op.stage, kind});
        });
      }
  };
  collect(EdgeKind::Activation, LiveKind::ReceivedActivation);
  const auto gradients = static_cast<std::ptrdiff_t>(arrivals.size());
  collect(EdgeKind::Gradient, LiveKind::ReceivedGradient);
  // Arrivals of one time are all taken before anything else happens: their order does not show. Those of one
  // kind mostly come in order already.
  auto earlier = [](const Arrival &a, const Arrival &b) { return a.time < b.time; };
  const auto middle = arrivals.begin() + gradients;
  for (auto [begin, end] : {std::pair(arrivals.begin(), middle), {middle, arrivals.end()}})
    if (!std::is_sorted(begin, end, earlier))
      std::sort(begin, end, earlier);
  std::inplace_merge(arrivals.begin(), middle, arrivals.end(), earlier);
}

// At one moment what ends is freed before what begins is counted, so an arrival at the very start of an op
// is measured together with it: without a transfer time it may pass into the op at once.
void MemoryWalk::walk(uint32_t device) {
  if (walkWithJump(device))
    return;
  begin(device);
  collectAllArrivals(device);
  measure(0, program.deviceBegin[device]);
  walkOps(program.deviceBegin[device], program.deviceBegin[device + 1]);
}

void MemoryWalk::walkOps(OpId from, OpId to) {
  for (OpId first = from; first != to && !isListed();) {
    OpId end = program.ops[first].has(OverlapFirst) ? program.groupEnd(first) : first + 1;
    int64_t stop = timeline.end[first];
    int64_t start = stop - durationOfGroup(costs, &program.ops[first], end - first);
    takeArrivals(start, first);
    for (; nextArrival < arrivals.size() && arrivals[nextArrival].time == start; ++nextArrival)
      takeArrival(arrivals[nextArrival]);
    for (OpId op = first; op != end; ++op)
      beginOp(program.ops[op]);
    for (OpId op = first; op != end && changesStatics; ++op)
      beginStatics(program.ops[op]);
    measure(start, first);
    takeArrivals(stop, first);
    for (OpId op = first; op != end; ++op)
      endOp(program.ops[op]);
    for (OpId op = first; op != end && changesStatics; ++op)
      endStatics(program.ops[op]);
    if (versions)
      for (OpId op = first; op != end; ++op)
        keepVersions(op);
    if (curve)
      extendCurve({stop, total, activations});
    lastStart = start;
    lastStop = stop;
    first = end;
  }
}

void MemoryWalk::takeArrival(const Arrival &arrival) { take(arrival.kind, arrival.stage, arrival.bytes); }

void MemoryWalk::takeArrivals(int64_t before, OpId next) {
  for (; nextArrival < arrivals.size() && arrivals[nextArrival].time < before; ++nextArrival) {
    takeArrival(arrivals[nextArrival]);
    measure(arrivals[nextArrival].time, next);
  }
}

void MemoryWalk::take(LiveKind kind, uint32_t stage, int64_t bytes) {
  if (bytes == 0 || overflowed)
    return;
  overflowed = __builtin_add_overflow(total, bytes, &total);
  if (overflowed)
    return; // the account ends here
  Live &local = live(stage);
  ++local.count[static_cast<unsigned>(kind)];
  local.bytes[static_cast<unsigned>(kind)] += bytes;
}

void MemoryWalk::release(LiveKind kind, uint32_t stage, int64_t bytes) {
  if (bytes == 0 || overflowed)
    return;
  Live &local = live(stage);
  --local.count[static_cast<unsigned>(kind)];
  local.bytes[static_cast<unsigned>(kind)] -= bytes;
  total -= bytes;
}

void MemoryWalk::measure(int64_t time, OpId op) {
  ++moment;
  peaks.peakActivation = std::max(peaks.peakActivation, activations);
  peaks.peakSaved = std::max(peaks.peakSaved, saved);
  peaks.peakPending = std::max(peaks.peakPending, pending);
  if (total > peaks.peakBytes) {
    peaks.peakBytes = total;
    peaks.peakTime = time;
    peaks.peakOp = op;
    peakMoment = moment;
  }
  if (total > limit && excessMoment == 0) {
    excessMoment = moment;
    excessOp = op;
  }
  if (moment == listedMoment)
    peaks.livePeak = items();
  if (curve)
    extendCurve({time, total, activations});
}

void MemoryWalk::extendCurve(const MemoryPoint &now) {
  if (!curve->empty() && curve->back().time == now.time)
    curve->pop_back();
  if (curve->empty() || curve->back().bytes != now.bytes || curve->back().activations != now.activations)
    curve->push_back(now);
}

std::vector<LiveItem> MemoryWalk::items() {
  std::vector<LiveItem> result;
  auto add = [&](LiveKind kind, uint32_t stage, uint32_t count, int64_t bytes) {
    if (bytes != 0)
      result.push_back({kind, stage, count, bytes});
  };
  for (Live &local : locals) {
    for (unsigned kind = 0; kind < dynamicKinds; ++kind)
      add(static_cast<LiveKind>(kind), local.stage, local.count[kind], local.bytes[kind]);
    add(LiveKind::Weights, local.stage, local.versions, weightBytes(local));
    add(LiveKind::Gradients, local.stage, local.sets.count(),
        times(costs.gradients[local.stage], local.sets.count()));
    add(LiveKind::OptimizerState, local.stage, 1, optimizerBytes(local.stage));
  }
  return result;
}

MemoryWalk::State MemoryWalk::stateAfter(const Op &op) {
  switch (op.kind) {
  case OpKind::Forward:
    return op.has(KeepNothing) ? State::None : op.has(KeepInput) ? State::Input : State::Saved;
  case OpKind::Recompute:
    return State::Saved;
  case OpKind::BackwardInput:
    return State::Half;
  case OpKind::Drop:
    return op.has(KeepInput) ? State::Input : State::None;
  case OpKind::Offload: // the copy is whole, and the activation free, at its end or its wait's
    return op.isStarted() ? State::Saved : State::Host;
  case OpKind::Reload:
    return State::Saved;
  default:
    return State::None;
  }
}

LiveKind MemoryWalk::kindOf(State state) {
  return state == State::Input   ? LiveKind::KeptInput
         : state == State::Saved ? LiveKind::Saved
                                 : LiveKind::Pending;
}

int64_t MemoryWalk::sizeOf(State state, const Op &op) const {
  switch (state) {
  case State::None:
  case State::Host:
    return 0;
  case State::Input:
    return costs.keptInput.at(op.stage, op.microbatch);
  case State::Saved:
    return costs.activation.at(op.stage, op.microbatch);
  case State::Half:
    return costs.pending.at(op.stage, op.microbatch);
  }
  return 0;
}

// What one state holds turns into what the next holds: growth counts from the op's start, shrinkage to its
// end. Slots are apart, since an executor's callback has both the old and the new one at hand.
void MemoryWalk::beginState(const Op &op) {
  State before = state(op), after = stateAfter(op);
  if (before == after)
    return;
  saved += after == State::Saved;
  pending += after == State::Half;
  activations += after >= State::Saved && before < State::Saved;
  if (sizeOf(after, op) > sizeOf(before, op))
    exchange(before, after, op);
}

void MemoryWalk::endState(const Op &op) {
  State before = state(op), after = stateAfter(op);
  if (before == after)
    return;
  saved -= before == State::Saved;
  pending -= before == State::Half;
  activations -= before >= State::Saved && after < State::Saved;
  if (sizeOf(after, op) <= sizeOf(before, op))
    exchange(before, after, op);
  state(op) = after;
}

void MemoryWalk::exchange(State before, State after, const Op &op) {
  release(kindOf(before), op.stage, sizeOf(before, op));
  take(kindOf(after), op.stage, sizeOf(after, op));
}

void MemoryWalk::beginOp(const Op &op) {
  if (!op.touchesActivation())
    return;
  // A received activation passes into what its consumer keeps, so it goes before that comes.
  if (!op.has(KeepNothing) && countsBoundaries)
    releaseReceived(EdgeKind::Activation, op);
  if (op.kind == OpKind::Forward) {
    Live &local = live(op.stage);
    local.mostInFlight = std::max(local.mostInFlight, ++local.inFlight);
    if (isLast(op))
      take(LiveKind::LastOutput, op.stage, costs.boundary.at(op.stage, op.microbatch));
  }
  take(LiveKind::Workspace, op.stage, workspace(op));
  beginState(op);
}

void MemoryWalk::endOp(const Op &op) {
  if (!op.touchesActivation())
    return;
  const uint32_t s = op.stage, m = op.microbatch;
  endState(op);
  release(LiveKind::Workspace, s, workspace(op));
  if (op.has(KeepNothing) && countsBoundaries)
    releaseReceived(EdgeKind::Activation, op);
  if (countsBoundaries)
    releaseReceived(EdgeKind::Gradient, op);

  const bool isForward = op.kind == OpKind::Forward;
  // Without a backward, as in an evaluation, nothing waits for the output or counts as in flight.
  const OpId outputUser = isForward ? index.backward(s, m) : index.forward(s, m);
  const bool makesGradient = op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput;
  if (isLast(op) && (isForward ? outputUser == noOp : makesGradient && outputUser != noOp))
    release(LiveKind::LastOutput, s, costs.boundary.at(s, m));
  const bool contributes = op.kind == OpKind::Backward || op.kind == OpKind::BackwardWeight;
  if (isForward ? index.contribution(s, m) == noOp : contributes)
    --live(s).inFlight;
}

} // namespace sluice
