#include "Timeline/MemoryWalk.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <tuple>

namespace sluice {

MemoryWalk::MemoryWalk(const Program &program, const ProgramIndex &index, const CostModel &costs,
                       const Timeline &timeline, const Versions *versions)
    : program(program), index(index), costs(costs), timeline(timeline), versions(versions),
      localOf(program.stages) {
  countsBoundaries = false;
  for (uint32_t row = 0; row < costs.boundary.rowCount(); ++row)
    for (uint32_t stage = 0; stage < costs.boundary.stageCount(); ++stage)
      countsBoundaries |= costs.boundary.inRow(row, stage) != 0;
}

DeviceMemory MemoryWalk::peaksOf(uint32_t device) {
  listedMoment = 0;
  begin(device);
  collectArrivals(device);
  walk(device);
  return peaks;
}

std::vector<LiveItem> MemoryWalk::liveAtPeak(uint32_t device) {
  listedMoment = peakMoment;
  begin(device);
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
  constexpr uint32_t none = ~0u;
  std::fill(localOf.begin(), localOf.end(), none);
  locals.clear();
  for (const Op &op : program.opsOf(device))
    if (localOf[op.stage] == none) {
      localOf[op.stage] = static_cast<uint32_t>(locals.size());
      locals.emplace_back().stage = op.stage;
    }
  states.assign(locals.size() * program.microbatches, State::None);
  nextArrival = 0;
  activations = saved = pending = 0;
  total = 0;
  moment = 0;
  peaks = {};
  peaks.peakBytes = -1; // so that the first measurement counts
  addStatics(device);
}

void MemoryWalk::addStatics(uint32_t device) {
  auto add = [&](int64_t bytes) { overflowed |= __builtin_add_overflow(total, bytes, &total); };
  for (const Live &local : locals) {
    add(costs.weights[local.stage]);
    add(costs.gradients[local.stage]);
    add(costs.optimizerState[local.stage]);
  }
  if (!costs.reserved.empty())
    add(costs.reserved[device]);
}

/// Behind an op its copy may keep fewer versions, or one more if it is an update.
void MemoryWalk::keepVersions(OpId id) {
  Live &local = live(program.ops[id].stage);
  const int64_t more = static_cast<int64_t>(versions->kept[id]) - local.versions;
  int64_t bytes;
  overflowed |= __builtin_mul_overflow(more, costs.weights[local.stage], &bytes) ||
                __builtin_add_overflow(total, bytes, &total);
  local.versions = versions->kept[id];
}

bool MemoryWalk::receives(EdgeKind kind, const Op &op) const {
  const uint32_t s = op.stage, m = op.microbatch;
  if (kind == EdgeKind::Activation)
    return op.kind == OpKind::Forward && s > 0 && program.deviceOf(s - 1, m) != program.deviceOf(s, m) &&
           index.forward(s - 1, m) != noOp;
  return (op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput) && !isLast(op) &&
         program.deviceOf(s + 1, m) != program.deviceOf(s, m) && index.backward(s + 1, m) != noOp;
}

void MemoryWalk::collectArrivals(uint32_t device) {
  arrivals.clear();
  if (!countsBoundaries)
    return;
  for (const Op &op : program.opsOf(device)) {
    if (receives(EdgeKind::Activation, op))
      arrivals.push_back({timeline.end[index.forward(op.stage - 1, op.microbatch)], op.stage, op.microbatch,
                          LiveKind::ReceivedActivation});
    if (receives(EdgeKind::Gradient, op))
      arrivals.push_back({timeline.end[index.backward(op.stage + 1, op.microbatch)], op.stage, op.microbatch,
                          LiveKind::ReceivedGradient});
  }
  // Arrivals of one time are all taken before anything else happens: their order does not show.
  auto earlier = [](const Arrival &a, const Arrival &b) { return a.time < b.time; };
  if (!llvm::is_sorted(arrivals, earlier))
    llvm::sort(arrivals, earlier);
}

// At one moment what ends is freed before what begins is counted, so an arrival at the very start of an op
// is measured together with it: without a transfer time it may pass into the op at once.
void MemoryWalk::walk(uint32_t device) {
  measure(0, program.deviceBegin[device]);
  const OpId programEnd = program.deviceBegin[device + 1];
  for (OpId first = program.deviceBegin[device]; first != programEnd;) {
    OpId end = program.ops[first].has(OverlapFirst) ? program.groupEnd(first) : first + 1;
    int64_t stop = timeline.end[first];
    int64_t start = stop - durationOfGroup(costs, &program.ops[first], end - first);
    takeArrivals(start, first);
    for (; nextArrival < arrivals.size() && arrivals[nextArrival].time == start; ++nextArrival)
      takeArrival(arrivals[nextArrival]);
    for (OpId op = first; op != end; ++op)
      beginOp(program.ops[op]);
    measure(start, first);
    takeArrivals(stop, first);
    for (OpId op = first; op != end; ++op)
      endOp(program.ops[op]);
    if (versions)
      for (OpId op = first; op != end; ++op)
        keepVersions(op);
    first = end;
    if (listedMoment != 0 && moment >= listedMoment)
      return;
  }
}

void MemoryWalk::takeArrival(const Arrival &arrival) {
  uint32_t sender = arrival.kind == LiveKind::ReceivedActivation ? arrival.stage - 1 : arrival.stage;
  take(arrival.kind, arrival.stage, costs.boundary.at(sender, arrival.microbatch));
}

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
  if (moment == listedMoment)
    peaks.livePeak = items();
}

std::vector<LiveItem> MemoryWalk::items() const {
  std::vector<LiveItem> result;
  auto add = [&](LiveKind kind, uint32_t stage, uint32_t count, int64_t bytes) {
    if (bytes != 0)
      result.push_back({kind, stage, count, bytes});
  };
  for (const Live &local : locals) {
    for (unsigned kind = 0; kind < dynamicKinds; ++kind)
      add(static_cast<LiveKind>(kind), local.stage, local.count[kind], local.bytes[kind]);
    add(LiveKind::Weights, local.stage, local.versions, costs.weights[local.stage] * local.versions);
    add(LiveKind::Gradients, local.stage, 1, costs.gradients[local.stage]);
    add(LiveKind::OptimizerState, local.stage, 1, costs.optimizerState[local.stage]);
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
  if (!op.has(KeepNothing) && countsBoundaries && receives(EdgeKind::Activation, op))
    release(LiveKind::ReceivedActivation, op.stage, costs.boundary.at(op.stage - 1, op.microbatch));
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
  if (op.has(KeepNothing) && countsBoundaries && receives(EdgeKind::Activation, op))
    release(LiveKind::ReceivedActivation, s, costs.boundary.at(s - 1, m));
  if (countsBoundaries && receives(EdgeKind::Gradient, op))
    release(LiveKind::ReceivedGradient, s, costs.boundary.at(s, m));

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
