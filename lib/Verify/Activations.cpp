#include "Verify/Activations.h"

namespace sluice {

namespace {

/// Marks a transition that does not exist.
constexpr Activation illegal{15};

/// The state after an op that nothing is wrong with; forward and drop by their plain form.
constexpr Activation transitions[6][6] = {
    // None, Input, Saved, Half, Gone, Done
    {Activation::Saved, illegal, illegal, illegal, illegal, illegal},         // forward
    {illegal, illegal, Activation::Done, illegal, illegal, illegal},          // backward
    {illegal, illegal, Activation::Half, illegal, illegal, illegal},          // backward_input
    {illegal, illegal, illegal, Activation::Done, illegal, illegal},          // backward_weight
    {illegal, Activation::Saved, illegal, illegal, illegal, illegal},         // recompute
    {illegal, Activation::Gone, Activation::Gone, illegal, illegal, illegal}, // drop
};
static_assert(static_cast<int>(OpKind::Drop) == 5, "rows follow OpKind");

Activation afterForward(const Op &op) {
  if (op.has(KeepNothing))
    return Activation::Gone;
  return op.has(KeepInput) ? Activation::Input : Activation::Saved;
}

/// `hasSplits`: microbatches are split along the sequence. Where they are not, nothing is asked about it.
template <bool hasSplits> class Walker {
public:
  Walker(const Program &program, const CostModel &costs, bool skipMisplaced)
      : program(program), costs(costs), skipMisplaced(skipMisplaced) {
    walk.states.resize(static_cast<size_t>(program.stages) * program.microbatches);
  }
  ActivationWalk run();

private:
  void step(OpId id);
  void overlap(OpId first, OpId end);
  void refuse(OpId id, PairState &state);
  void checkNeighbours(OpId id, const PairState *state);
  void checkSplits(OpId id, const PairState *state);
  void fault(Rule rule, OpId id, Activation met = Activation::None, OpId other = noOp);

  const Program &program;
  const CostModel &costs;
  const bool skipMisplaced;
  uint32_t device = 0;
  ActivationWalk walk;
};

} // namespace

static bool makesGradient(const Op &op) {
  return op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput;
}

template <bool hasSplits> void Walker<hasSplits>::fault(Rule rule, OpId id, Activation met, OpId other) {
  const Op &op = program.ops[id];
  walk.faults.push_back({rule, static_cast<uint8_t>(met), device, op.stage, op.microbatch, id, other});
}

/// An op that its state does not allow. The state goes on as if it had been allowed, so that what follows
/// is not blamed again.
template <bool hasSplits> void Walker<hasSplits>::refuse(OpId id, PairState &state) {
  const Op &op = program.ops[id];
  const Activation met = state.activation;
  switch (op.kind) {
  case OpKind::Forward:
    if (state.forwardRan)
      fault(Rule::DuplicateOp, id, met);
    break;
  case OpKind::Backward:
  case OpKind::BackwardInput:
    fault(state.backwardRan ? Rule::DuplicateOp : Rule::MissingActivation, id, met);
    if (!state.backwardRan)
      state.activation = op.kind == OpKind::Backward ? Activation::Done : Activation::Half;
    break;
  case OpKind::BackwardWeight:
    fault(met == Activation::Done ? Rule::DuplicateOp : Rule::WeightHalfFirst, id, met);
    break;
  case OpKind::Recompute:
    fault(met == Activation::Saved ? Rule::DuplicateOp : Rule::RecomputeWithoutInput, id, met);
    if (!state.backwardRan)
      state.activation = Activation::Saved;
    break;
  default:
    fault(Rule::MissingActivation, id, met);
    break;
  }
}

/// Producers on this device must stand earlier in its program; those of other devices are a matter of
/// the compute order.
template <bool hasSplits> void Walker<hasSplits>::checkNeighbours(OpId id, const PairState *state) {
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
template <bool hasSplits> void Walker<hasSplits>::checkSplits(OpId id, const PairState *state) {
  const Op &op = program.ops[id];
  auto report = [&](Rule rule) {
    const bool isReported = !walk.faults.empty() && walk.faults.back().op == id;
    if (!isReported) // a neighbouring stage is blamed before a split
      walk.faults.push_back({rule, ofSplit, device, op.stage, op.microbatch, id, noOp});
  };
  if (op.kind == OpKind::Forward && program.hasSplitBefore(op.microbatch) && !state[-1].forwardRan)
    report(Rule::MissingInput);
  if (makesGradient(op) && program.hasSplitBehind(op.microbatch) && !state[1].backwardRan)
    report(Rule::MissingGradient);
}

template <bool hasSplits> void Walker<hasSplits>::step(OpId id) {
  const Op &op = program.ops[id];
  if (!op.touchesActivation() || op.kind > OpKind::Drop)
    return;
  if (skipMisplaced && program.deviceOf(op.stage, op.microbatch) != device)
    return;
  PairState &state = walk.states[static_cast<size_t>(op.stage) * program.microbatches + op.microbatch];
  checkNeighbours(id, &state);
  if constexpr (hasSplits)
    checkSplits(id, &state);
  Activation next = transitions[static_cast<int>(op.kind)][static_cast<int>(state.activation)];
  if (next == illegal)
    refuse(id, state);
  else if (op.kind == OpKind::Forward)
    state.activation = afterForward(op);
  else if (op.kind == OpKind::Drop && op.has(KeepInput))
    state.activation = Activation::Input;
  else
    state.activation = next;
  state.forwardRan |= op.kind == OpKind::Forward;
  state.backwardRan |= op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput;
}

/// Whether `consumer` needs what `producer` makes for a neighbouring split of the same microbatch.
static bool feedsSplit(const Program &program, const Op &producer, const Op &consumer) {
  if (producer.stage != consumer.stage)
    return false;
  if (consumer.kind == OpKind::Forward)
    return producer.kind == OpKind::Forward && program.hasSplitBefore(consumer.microbatch) &&
           producer.microbatch + 1 == consumer.microbatch;
  return makesGradient(consumer) && makesGradient(producer) && program.hasSplitBehind(consumer.microbatch) &&
         producer.microbatch == consumer.microbatch + 1;
}

/// Whether `consumer` needs what `producer` makes.
static bool feeds(const Program &program, const Op &producer, const Op &consumer) {
  if (!producer.touchesActivation())
    return false;
  if (producer.microbatch != consumer.microbatch)
    return program.sequenceSplits > 1 && feedsSplit(program, producer, consumer);
  const bool sameStage = producer.stage == consumer.stage;
  const bool makesActivation =
      sameStage && (producer.kind == OpKind::Forward || producer.kind == OpKind::Recompute);
  switch (consumer.kind) {
  case OpKind::Forward:
    return producer.kind == OpKind::Forward && producer.stage + 1 == consumer.stage;
  case OpKind::Backward:
  case OpKind::BackwardInput:
    return makesActivation || (producer.stage == consumer.stage + 1 && makesGradient(producer));
  case OpKind::BackwardWeight:
    return sameStage && producer.kind == OpKind::BackwardInput;
  case OpKind::Recompute:
    return sameStage && producer.kind == OpKind::Forward;
  case OpKind::Drop:
    return makesActivation;
  default:
    return false;
  }
}

/// Members start together, so none may need another's result. One that does is blamed for that alone.
template <bool hasSplits> void Walker<hasSplits>::overlap(OpId first, OpId end) {
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

template <bool hasSplits> ActivationWalk Walker<hasSplits>::run() {
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
  if (program.sequenceSplits > 1)
    return Walker<true>(program, costs, skipMisplaced).run();
  return Walker<false>(program, costs, skipMisplaced).run();
}

} // namespace sluice
