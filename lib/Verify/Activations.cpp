#include "Verify/Activations.h"

namespace sluice {

namespace {

/// Marks a transition that does not exist.
constexpr Activation illegal{15};

/// The state after an op of compute that nothing is wrong with; forward by its plain form. Drops, offloads
/// and reloads follow below.
constexpr Activation transitions[5][9] = {
    // None, Input, Saved, Half, Gone, Done, Host, Leaving, Coming
    {Activation::Saved, illegal, illegal, illegal, illegal, illegal, illegal, illegal, illegal}, // forward
    {illegal, illegal, Activation::Done, illegal, illegal, illegal, illegal, illegal, illegal},  // backward
    {illegal, illegal, Activation::Half, illegal, illegal, illegal, illegal, illegal, illegal},  // input half
    {illegal, illegal, illegal, Activation::Done, illegal, illegal, illegal, illegal, illegal}, // weight half
    {illegal, Activation::Saved, illegal, illegal, illegal, illegal, illegal, illegal, illegal}, // recompute
};
static_assert(static_cast<int>(OpKind::Recompute) == 4, "rows follow OpKind");
static_assert(static_cast<int>(Activation::Coming) == 8, "columns follow Activation");

Activation afterForward(const Op &op) {
  if (op.has(KeepNothing))
    return Activation::Gone;
  return op.has(KeepInput) ? Activation::Input : Activation::Saved;
}

/// `hasMore`: microbatches are split along the sequence, or outputs skip stages. Where neither is so, nothing
/// is asked about it.
template <bool hasMore> class Walker {
public:
  Walker(const Program &program, const CostModel &costs, bool skipMisplaced)
      : program(program), costs(costs), skipMisplaced(skipMisplaced) {
    walk.states.resize(static_cast<size_t>(program.stages) * program.microbatches);
    if (program.skips.empty())
      return;
    skippedTo.resize(program.stages);
    skippedFrom.resize(program.stages);
    for (const SkipEdge &skip : program.skips) {
      skippedTo[skip.from].push_back(skip);
      skippedFrom[skip.to].push_back(skip);
    }
  }
  ActivationWalk run();

private:
  void step(OpId id);
  void overlap(OpId first, OpId end);
  void note(const Op &op);
  void transfer(OpId id, PairState &state);
  void drop(OpId id, PairState &state);
  void refuse(OpId id, PairState &state);
  bool isInFlight(OpId id, const PairState &state);
  size_t indexOf(const PairState &state) const { return static_cast<size_t>(&state - walk.states.data()); }
  void checkNeighbours(OpId id, const PairState *state);
  void checkSplits(OpId id, const PairState *state);
  void checkSkips(OpId id, const PairState *state);
  void fault(Rule rule, OpId id, Activation met = Activation::None, OpId other = noOp);

  const Program &program;
  const CostModel &costs;
  const bool skipMisplaced;
  uint32_t device = 0;
  std::vector<std::vector<SkipEdge>> skippedTo, skippedFrom; // per stage; empty: none
  llvm::DenseSet<size_t> unstarted; // pairs with a wait whose start is missing or stands behind it
  ActivationWalk walk;
};

} // namespace

template <bool hasMore> void Walker<hasMore>::fault(Rule rule, OpId id, Activation met, OpId other) {
  const Op &op = program.ops[id];
  walk.faults.push_back({rule, static_cast<uint8_t>(met), device, op.stage, op.microbatch, id, other});
}

/// What a transfer under way forbids: every use of the activation. True if that is the fault.
template <bool hasMore> bool Walker<hasMore>::isInFlight(OpId id, const PairState &state) {
  const Op &op = program.ops[id];
  const Activation met = state.activation;
  const bool isUse = op.kind != OpKind::Forward && op.kind != OpKind::BackwardWeight && !state.backwardRan;
  if ((met != Activation::Leaving && met != Activation::Coming) || !isUse)
    return false;
  fault(Rule::TransferInFlight, id, met);
  return true;
}

/// An op that its state does not allow. The state goes on as if it had been allowed, so that what follows
/// is not blamed again.
template <bool hasMore> void Walker<hasMore>::refuse(OpId id, PairState &state) {
  const Op &op = program.ops[id];
  const Activation met = state.activation;
  const bool inFlight = isInFlight(id, state);
  auto missing = [&](Rule rule) {
    if (!inFlight)
      fault(rule, id, met);
  };
  switch (op.kind) {
  case OpKind::Forward:
    if (state.forwardRan)
      fault(Rule::DuplicateOp, id, met);
    break;
  case OpKind::Backward:
  case OpKind::BackwardInput:
    missing(state.backwardRan ? Rule::DuplicateOp : Rule::MissingActivation);
    if (!state.backwardRan)
      state.activation = op.kind == OpKind::Backward ? Activation::Done : Activation::Half;
    break;
  case OpKind::BackwardWeight:
    fault(met == Activation::Done ? Rule::DuplicateOp : Rule::WeightHalfFirst, id, met);
    break;
  case OpKind::Recompute:
    missing(met == Activation::Saved ? Rule::DuplicateOp : Rule::RecomputeWithoutInput);
    if (!state.backwardRan && !inFlight)
      state.activation = Activation::Saved;
    break;
  case OpKind::Drop:
    missing(met == Activation::Gone && state.dropped ? Rule::DuplicateOp : Rule::MissingActivation);
    if (inFlight)
      state.activation = op.has(KeepInput) ? Activation::Input : Activation::Gone;
    break;
  case OpKind::Offload:
    if (!unstarted.contains(indexOf(state)))
      missing(met == Activation::Host ? Rule::DuplicateOp : Rule::MissingActivation);
    if (inFlight)
      state.activation = op.isStarted() ? Activation::Leaving : Activation::Host;
    break;
  case OpKind::Reload:
    if (!unstarted.contains(indexOf(state)))
      missing(met == Activation::Saved && state.reloaded ? Rule::DuplicateOp : Rule::MissingActivation);
    if (inFlight)
      state.activation = op.isStarted() ? Activation::Coming : Activation::Saved;
    break;
  default:
    break;
  }
}

/// Offload and reload. A wait whose start is missing (308) does what the start would have done, so that
/// what follows is not blamed for it.
template <bool hasMore> void Walker<hasMore>::transfer(OpId id, PairState &state) {
  const Op &op = program.ops[id];
  const bool isOffload = op.kind == OpKind::Offload;
  const Activation from = isOffload ? Activation::Saved : Activation::Host;
  const Activation to = isOffload ? Activation::Host : Activation::Saved;
  const Activation moving = isOffload ? Activation::Leaving : Activation::Coming;
  const Activation met = state.activation;
  if (op.isWait()) {
    if (met == moving || (met == from && !state.reloaded))
      state.activation = to;
    if (met == from)
      unstarted.insert(indexOf(state));
    return;
  }
  if (met != from)
    refuse(id, state);
  else
    state.activation = op.isStarted() ? moving : to;
  state.reloaded |= !isOffload;
}

template <bool hasMore> void Walker<hasMore>::drop(OpId id, PairState &state) {
  // In host memory there is no input apart from the rest.
  const bool keepsInput = program.ops[id].has(KeepInput);
  const bool isKept = state.activation == Activation::Input || state.activation == Activation::Saved ||
                      (state.activation == Activation::Host && !keepsInput);
  if (!isKept)
    refuse(id, state);
  else
    state.activation = keepsInput ? Activation::Input : Activation::Gone;
  state.dropped = true;
}

/// What the families behind this one look for in the program.
template <bool hasMore> void Walker<hasMore>::note(const Op &op) {
  walk.kinds |= kindBit(op.kind);
  walk.hasStarts |= op.isStarted() || op.isWait();
}

/// Producers on this device must stand earlier in its program; those of other devices are a matter of
/// the compute order.
template <bool hasMore> void Walker<hasMore>::checkNeighbours(OpId id, const PairState *state) {
  const Op &op = program.ops[id];
  const size_t row = program.microbatches;
  switch (op.kind) {
  case OpKind::Forward:
    if (op.stage > 0 && !state[-static_cast<ptrdiff_t>(row)].forwardRan &&
        program.deviceOf(op.stage - 1, op.microbatch) == device)
      fault(Rule::MissingInput, id);
    break;
  case OpKind::Backward:
  case OpKind::BackwardInput:
    if (op.stage + 1u < program.stages && !state[row].backwardRan &&
        program.deviceOf(op.stage + 1u, op.microbatch) == device)
      fault(Rule::MissingGradient, id);
    break;
  case OpKind::Recompute:
    if (costs.isRandom(op.stage) && !op.has(Replay))
      fault(Rule::RecomputeRandom, id);
    break;
  default:
    break;
  }
}

/// Of a program with sequence splits: those of one microbatch share their device, and their order.
template <bool hasMore> void Walker<hasMore>::checkSplits(OpId id, const PairState *state) {
  const Op &op = program.ops[id];
  auto report = [&](Rule rule) {
    const bool isReported = !walk.faults.empty() && walk.faults.back().op == id;
    if (!isReported) // a neighbouring stage is blamed before a split
      walk.faults.push_back({rule, ofSplit, device, op.stage, op.microbatch, id, noOp});
  };
  if (op.kind == OpKind::Forward && program.hasSplitBefore(op.microbatch) && !state[-1].forwardRan)
    report(Rule::MissingInput);
  if (op.makesGradient() && program.hasSplitBehind(op.microbatch) && !state[1].backwardRan)
    report(Rule::MissingGradient);
}

/// Of a program with skip edges: what comes over one from a stage of the same device.
template <bool hasMore> void Walker<hasMore>::checkSkips(OpId id, const PairState *state) {
  const Op &op = program.ops[id];
  const auto row = static_cast<ptrdiff_t>(program.microbatches);
  auto isLate = [&](uint32_t stage, bool isForward) {
    const PairState &other = state[(static_cast<ptrdiff_t>(stage) - op.stage) * row];
    return !(isForward ? other.forwardRan : other.backwardRan) &&
           program.deviceOf(stage, op.microbatch) == device;
  };
  auto report = [&](Rule rule) {
    if (walk.faults.empty() || walk.faults.back().op != id) // a neighbouring stage is blamed before
      walk.faults.push_back({rule, ofSkip, device, op.stage, op.microbatch, id, noOp});
  };
  if (op.kind == OpKind::Forward)
    for (const SkipEdge &skip : skippedFrom[op.stage])
      if (isLate(skip.from, true))
        report(Rule::MissingInput);
  if (op.makesGradient())
    for (const SkipEdge &skip : skippedTo[op.stage])
      if (skip.hasGradient && isLate(skip.to, false))
        report(Rule::MissingGradient);
}

template <bool hasMore> void Walker<hasMore>::step(OpId id) {
  const Op &op = program.ops[id];
  if (!op.touchesActivation())
    return note(op);
  if (skipMisplaced && program.deviceOf(op.stage, op.microbatch) != device)
    return;
  PairState &state = walk.states[static_cast<size_t>(op.stage) * program.microbatches + op.microbatch];
  checkNeighbours(id, &state);
  if constexpr (hasMore) {
    if (program.sequenceSplits > 1)
      checkSplits(id, &state);
    if (!program.skips.empty())
      checkSkips(id, &state);
  }
  if (op.kind >= OpKind::Drop) {
    if (op.kind == OpKind::Drop)
      return drop(id, state);
    note(op);
    return transfer(id, state);
  }
  Activation next = transitions[static_cast<int>(op.kind)][static_cast<int>(state.activation)];
  if (next == illegal)
    refuse(id, state);
  else if (op.kind == OpKind::Forward)
    state.activation = afterForward(op);
  else
    state.activation = next;
  state.forwardRan |= op.kind == OpKind::Forward;
  state.backwardRan |= op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput;
}

/// Members start together, so none may need another's result. One that does is blamed for that alone.
template <bool hasMore> void Walker<hasMore>::overlap(OpId first, OpId end) {
  for (OpId id = first; id < end; ++id) {
    OpId producer = first;
    while (producer < end && (producer == id || !feeds(program, program.ops[producer], program.ops[id])))
      ++producer;
    const size_t before = walk.faults.size();
    step(id);
    if (producer == end)
      continue;
    walk.faults.resize(before);
    fault(Rule::OverlapDependsOnItself, id, Activation::None, producer);
  }
}

template <bool hasMore> ActivationWalk Walker<hasMore>::run() {
  for (device = 0; device < program.devices; ++device)
    for (OpId id = program.deviceBegin[device], end = program.deviceBegin[device + 1]; id < end;)
      if (program.ops[id].has(OverlapFirst)) {
        OpId groupEnd = program.groupEnd(id);
        overlap(id, groupEnd);
        id = groupEnd;
      } else {
        step(id++);
      }
  return std::move(walk);
}

ActivationWalk walkActivations(const Program &program, const CostModel &costs, bool skipMisplaced) {
  if (program.sequenceSplits > 1 || !program.skips.empty())
    return Walker<true>(program, costs, skipMisplaced).run();
  return Walker<false>(program, costs, skipMisplaced).run();
}

} // namespace sluice
