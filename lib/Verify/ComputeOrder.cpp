#include "Verify/ComputeOrder.h"

namespace sluice {

ComputeOrder::ComputeOrder(const Program &program, const Copies &copies, bool joinCollectives, Follow follow)
    : program(program), copies(copies), joinCollectives(joinCollectives && copies.isAnyShared()),
      follow(follow), isReceived(follow == Follow::Messages && !program.receivesWaitAtUse),
      marks(static_cast<size_t>(program.stages) * program.microbatches),
      cursor(program.deviceBegin.begin(), program.deviceBegin.begin() + program.devices),
      arrived(program.stages) {}

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

std::optional<ComputeOrder::Need> ComputeOrder::needOf(const Op &op) const {
  switch (op.kind) {
  case OpKind::Forward:
    return isReceived || op.stage == 0 ? std::nullopt
                                       : std::optional<Need>({op.stage - 1u, op.microbatch, false});
  case OpKind::Backward:
  case OpKind::BackwardInput:
    return isReceived || op.stage + 1u == program.stages
               ? std::nullopt
               : std::optional<Need>({op.stage + 1u, op.microbatch, true});
  case OpKind::RecvActivation:
    return isReceived ? std::optional<Need>({op.stage - 1u, op.microbatch, false}) : std::nullopt;
  case OpKind::RecvGradient:
    return isReceived ? std::optional<Need>({op.stage + 1u, op.microbatch, true}) : std::nullopt;
  default:
    return std::nullopt;
  }
}

/// What `needOf` says, without making it: this is asked for every op.
template <ComputeOrder::Follow followed> bool ComputeOrder::mustWait(const Op &op, uint32_t device) {
  const bool atReceives = followed == Follow::Messages && isReceived;
  const bool takesActivation = op.kind == (atReceives ? OpKind::RecvActivation : OpKind::Forward);
  const bool takesGradient = atReceives ? op.kind == OpKind::RecvGradient
                                        : op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput;
  if (takesActivation) {
    if (op.stage == 0 || !lacksForward(op.stage - 1u, op.microbatch, device))
      return false;
    marks[pair(op.stage - 1u, op.microbatch)] |= forwardAwaited;
    return true;
  }
  if (!takesGradient || op.stage + 1u == program.stages ||
      !lacksBackward(op.stage + 1u, op.microbatch, device))
    return false;
  marks[pair(op.stage + 1u, op.microbatch)] |= backwardAwaited;
  return true;
}

template <ComputeOrder::Follow followed> void ComputeOrder::finish(const Op &op) {
  uint8_t done, awaited;
  constexpr bool isSent = followed == Follow::Messages;
  if (op.kind == (isSent ? OpKind::SendActivation : OpKind::Forward))
    done = forwardDone, awaited = forwardAwaited;
  else if (isSent ? op.kind == OpKind::SendGradient
                  : op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput)
    done = backwardDone, awaited = backwardAwaited;
  else
    return;
  uint8_t &mark = marks[pair(op.stage, op.microbatch)];
  mark |= done;
  if (mark & awaited) {
    mark &= static_cast<uint8_t>(~awaited);
    uint32_t consumer = done == forwardDone ? op.stage + 1u : op.stage - 1u;
    runnable.push_back(program.deviceOf(consumer, op.microbatch));
  }
}

/// The last device to arrive lets all others go on behind the reduction.
bool ComputeOrder::join(uint32_t device, uint32_t stage) {
  if (++arrived[stage] < copies.count(stage))
    return false;
  arrived[stage] = 0;
  for (uint32_t other : copies.devicesOf(stage))
    if (other != device) {
      ++cursor[other];
      runnable.push_back(other);
    }
  return true;
}

/// First op after the statement (an op, an overlap, or a group of posts) that starts at `first`. Groups make
/// no difference to the order of the data: each post is a statement of its own there.
template <ComputeOrder::Follow followed> OpId ComputeOrder::statementEnd(OpId first) const {
  if (followed == Follow::Messages && program.ops[first].has(GroupFirst))
    return program.postedEnd(first);
  return program.ops[first].has(OverlapFirst) ? program.groupEnd(first) : first + 1;
}

template <ComputeOrder::Follow followed> void ComputeOrder::advance(uint32_t device) {
  const OpId end = program.deviceBegin[device + 1];
  OpId at = cursor[device];
  while (at < end) {
    const Op &op = program.ops[at];
    const OpId groupEnd = statementEnd<followed>(at);
    if (groupEnd != at + 1) {
      if (followed == Follow::Messages && op.has(GroupFirst))
        for (OpId id = at; id < groupEnd; ++id)
          finish<followed>(program.ops[id]); // its posts; what it receives is waited for below
      bool waits = false;
      for (OpId id = at; id < groupEnd && !waits; ++id)
        waits = mustWait<followed>(program.ops[id], device);
      if (waits)
        break;
    } else if (mustWait<followed>(op, device)) {
      break;
    } else if (joins(op)) {
      cursor[device] = at; // `join` may move it on when another device arrives last
      if (!join(device, op.stage))
        return;
    }
    for (; at < groupEnd; ++at)
      finish<followed>(program.ops[at]);
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
    // Most programs have no messages, and are walked without looking for any.
    follow == Follow::Data ? advance<Follow::Data>(device) : advance<Follow::Messages>(device);
  }
  return finished() == program.size();
}

} // namespace sluice
