#include "Verify/ComputeOrder.h"

#include "llvm/ADT/STLExtras.h"

#include <utility>

namespace sluice {

ComputeOrder::ComputeOrder(const Program &program, const Copies &copies, bool joinCollectives)
    : program(program), copies(copies), marks(static_cast<size_t>(program.stages) * program.microbatches),
      cursor(program.deviceBegin.begin(), program.deviceBegin.begin() + program.devices) {
  if (joinCollectives)
    nameCalls();
}

/// Most programs have no call of several devices, and ask nothing about them.
void ComputeOrder::nameCalls() {
  const bool hasOthers = llvm::any_of(
      program.ops, [](const Op &op) { return op.kind == OpKind::ReduceTied || op.kind == OpKind::Norm; });
  if (!copies.isAnyShared() && !hasOthers)
    return;
  calls.resize(program.stages + program.ties.size() + 1);
  for (uint32_t stage = 0; stage < program.stages; ++stage)
    calls[stage].members = copies.devicesOf(stage).vec();
  for (uint32_t tie = 0; tie < program.ties.size(); ++tie)
    calls[program.stages + tie].members = program.membersOf({OpKind::ReduceTied, 0, 0, tie});
  calls.back().members = program.membersOf({OpKind::Norm});
  standsAtCall.resize(program.devices);
  for (Call &call : calls) {
    call.made.resize(call.members.size());
    call.waited.resize(call.members.size());
  }
}

bool ComputeOrder::lacksForward(uint32_t stage, uint32_t microbatch, uint32_t device) const {
  return !(marks[pair(stage, microbatch)] & forwardDone) && program.deviceOf(stage, microbatch) != device;
}

bool ComputeOrder::lacksBackward(uint32_t stage, uint32_t microbatch, uint32_t device) const {
  return !(marks[pair(stage, microbatch)] & backwardDone) && program.deviceOf(stage, microbatch) != device;
}

uint64_t ComputeOrder::finished() const {
  uint64_t count = 0;
  for (uint32_t device = 0; device < program.devices; ++device)
    count += cursor[device] - program.deviceBegin[device];
  return count;
}

llvm::SmallVector<ComputeOrder::Need, 2> ComputeOrder::needsOf(const Op &op) const {
  llvm::SmallVector<Need, 2> needs;
  if (op.kind == OpKind::Forward) {
    if (op.stage > 0)
      needs.push_back({op.stage - 1u, op.microbatch, false});
    for (const SkipEdge &skip : program.skips)
      if (skip.to == op.stage)
        needs.push_back({skip.from, op.microbatch, false});
  } else if (op.makesGradient()) {
    if (op.stage + 1u < program.stages)
      needs.push_back({op.stage + 1u, op.microbatch, true});
    for (const SkipEdge &skip : program.skips)
      if (skip.from == op.stage && skip.hasGradient)
        needs.push_back({skip.to, op.microbatch, true});
  }
  return needs;
}

bool ComputeOrder::isMissing(uint32_t stage, uint32_t microbatch, bool isBackward, uint32_t device) {
  if (!(isBackward ? lacksBackward(stage, microbatch, device) : lacksForward(stage, microbatch, device)))
    return false;
  marks[pair(stage, microbatch)] |= isBackward ? backwardAwaited : forwardAwaited;
  return true;
}

/// What `needsOf` says, without making it: this is asked for every op.
template <bool hasSkips> bool ComputeOrder::mustWait(const Op &op, uint32_t device) {
  if (op.kind == OpKind::Forward) {
    if (op.stage > 0 && isMissing(op.stage - 1u, op.microbatch, false, device))
      return true;
    if constexpr (hasSkips)
      for (const SkipEdge &skip : program.skips)
        if (skip.to == op.stage && isMissing(skip.from, op.microbatch, false, device))
          return true;
  } else if (op.makesGradient()) {
    if (op.stage + 1u < program.stages && isMissing(op.stage + 1u, op.microbatch, true, device))
      return true;
    if constexpr (hasSkips)
      for (const SkipEdge &skip : program.skips)
        if (skip.from == op.stage && skip.hasGradient && isMissing(skip.to, op.microbatch, true, device))
          return true;
  }
  return false;
}

template <bool hasSkips> void ComputeOrder::finish(const Op &op) {
  const bool isForward = op.kind == OpKind::Forward;
  if (!isForward && !op.makesGradient())
    return;
  const uint8_t done = isForward ? forwardDone : backwardDone;
  const uint8_t awaited = isForward ? forwardAwaited : backwardAwaited;
  uint8_t &mark = marks[pair(op.stage, op.microbatch)];
  mark |= done;
  if (!(mark & awaited))
    return;
  mark &= static_cast<uint8_t>(~awaited);
  auto wake = [&](uint32_t stage) {
    if (stage < program.stages)
      runnable.push_back(program.deviceOf(stage, op.microbatch));
  };
  wake(isForward ? op.stage + 1u : op.stage - 1u);
  if constexpr (hasSkips)
    for (const SkipEdge &skip : program.skips)
      if ((isForward ? skip.from : skip.to) == op.stage)
        wake(isForward ? skip.to : skip.from);
}

/// A call arrives once; it, or the wait for it where it is started, stands until all members have arrived.
bool ComputeOrder::mustMeet(const Op &op, uint32_t device) {
  Call &call = calls[nameOf(op)];
  const size_t member = llvm::lower_bound(call.members, device) - call.members.begin();
  if (!op.isWait() && !std::exchange(standsAtCall[device], uint8_t(0))) {
    const uint32_t number = call.made[member]++;
    if (number >= call.arrived.size())
      call.arrived.resize(number + 1);
    if (++call.arrived[number] == call.members.size())
      for (uint32_t other : call.members)
        if (other != device)
          runnable.push_back(other);
  }
  if (op.isStarted())
    return false;
  // The n-th wait is for the n-th start: of one name no other call may come between (308, 309).
  const uint32_t number = op.isWait() ? call.waited[member] : call.made[member] - 1;
  if (number < call.arrived.size() && call.arrived[number] == call.members.size()) {
    call.waited[member] += op.isWait();
    return false;
  }
  standsAtCall[device] = !op.isWait();
  return true;
}

template <bool hasSkips> void ComputeOrder::advance(uint32_t device) {
  const OpId end = program.deviceBegin[device + 1];
  OpId at = cursor[device];
  while (at < end) {
    const Op &op = program.ops[at];
    if (op.has(OverlapFirst)) {
      const OpId groupEnd = program.groupEnd(at);
      bool waits = false;
      for (OpId id = at; id < groupEnd && !waits; ++id)
        waits = mustWait<hasSkips>(program.ops[id], device);
      if (waits)
        break;
      for (; at < groupEnd; ++at)
        finish<hasSkips>(program.ops[at]);
      continue;
    }
    if (mustWait<hasSkips>(op, device) || (joins(op) && mustMeet(op, device)))
      break;
    finish<hasSkips>(op);
    ++at;
  }
  cursor[device] = at;
}

bool ComputeOrder::run() {
  // Device 0 on top: with the usual placements the first stages have work first.
  for (uint32_t device = program.devices; device-- > 0;)
    runnable.push_back(device);
  while (!runnable.empty()) {
    uint32_t device = runnable.back();
    runnable.pop_back();
    program.skips.empty() ? advance<false>(device) : advance<true>(device);
  }
  return finished() == program.size();
}

} // namespace sluice
