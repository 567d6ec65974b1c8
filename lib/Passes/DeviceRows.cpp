#include "Passes/DeviceRows.h"

#include "llvm/Support/ErrorHandling.h"

#include <algorithm>
#include <cassert>

namespace sluice {

DeviceRows::DeviceRows(const RowSource &source)
    : program(source.program), index(source.index), source(source), localOf(program.stages, none) {}

void DeviceRows::begin(uint32_t of, uint32_t count) {
  device = of;
  rows.clear();
  boundaries = SlotPool(count);
  saveds = pendings = hosts = carries = SlotPool();
  for (uint32_t stage : here)
    localOf[stage] = none;
  here.clear();
  hasVersions.clear();
  tables.clear();
  carryOf.clear();
  skipTables.assign(program.skips.size(), {});
}

uint32_t DeviceRows::local(uint32_t stage) {
  uint32_t &number = localOf[stage];
  if (number != none)
    return number;
  number = static_cast<uint32_t>(here.size());
  here.push_back(stage);
  hasVersions.push_back(source.versions.hasSeveral(stage, device));
  tables.resize(tables.size() + program.microbatches);
  if (program.sequenceSplits > 1)
    carryOf.resize(carryOf.size() + program.wholeMicrobatches(), none);
  return number;
}

DeviceRows::SkipHeld &DeviceRows::heldOver(uint32_t skip, uint32_t microbatch) {
  if (skipTables[skip].empty())
    skipTables[skip].resize(program.microbatches);
  return skipTables[skip][microbatch];
}

uint32_t DeviceRows::boundariesOf(uint32_t of) {
  walk(of, 0);
  return boundaries.size();
}

void DeviceRows::walk(uint32_t of, uint32_t count) {
  begin(of, count);
  source.training.beginDevice(device);
  const OpId end = program.deviceBegin[device + 1];
  for (OpId id = program.deviceBegin[device]; id < end;) {
    if (program.ops[id].isCommunication()) {
      id = messages(id, end);
      giveBack();
      continue;
    }
    run(id++);
    if (id == end || !program.ops[id].has(OverlapFollower) || program.ops[id].isCommunication())
      giveBack();
  }
}

DeviceTable DeviceRows::lower(uint32_t of, uint32_t count) {
  walk(of, count);
  source.training.flagContributions(rows);
  DeviceTable table;
  table.rows = rows; // of exactly their size
  table.boundaries = boundaries.size();
  table.saveds = saveds.size();
  table.pendings = pendings.size();
  table.hosts = hosts.size();
  table.carries = carries.size();
  return table;
}

void DeviceRows::giveBack() {
  boundaries.giveBack();
  saveds.giveBack();
  pendings.giveBack();
  hosts.giveBack();
  carries.giveBack();
}

void DeviceRows::run(OpId id) {
  const Op &op = program.ops[id];
  switch (op.kind) {
  case OpKind::Forward:
    return forward(id);
  case OpKind::Backward:
    return backward(id, RuntimeOp::Backward);
  case OpKind::BackwardInput:
    return backward(id, RuntimeOp::BackwardInput);
  case OpKind::BackwardWeight: {
    uint32_t &pending = held(op.stage, op.microbatch).pending;
    factorOperand(id);
    source.training.contribution(op, rows.size());
    row(RuntimeOp::BackwardWeight, op, none, none, none, pending);
    return pendings.release(pending);
  }
  case OpKind::Recompute:
    return recompute(id);
  case OpKind::Drop:
    return drop(op);
  case OpKind::Offload:
    return offload(op);
  case OpKind::Reload:
    return reload(op);
  case OpKind::Zero:
    return row(RuntimeOp::Zero, op);
  case OpKind::Scale:
    return row(RuntimeOp::Scale, op, none, none, none, source.training.factor(program.factorOf(id)));
  case OpKind::Reduce:
    if (!op.isWait())
      source.training.beforeReduction(op.stage, rows);
    withoutSlots(RuntimeOp::Reduce, op);
    return source.training.afterReduction(op, rows);
  case OpKind::ReduceTied: {
    const uint32_t weight = op.microbatch;
    if (!op.isWait())
      for (uint32_t stage : program.ties[weight].stages)
        if (localOf[stage] != none)
          source.training.beforeReduction(stage, rows);
    return withoutSlots(RuntimeOp::ReduceTied,
                        {op.kind, op.flags, static_cast<uint16_t>(lowestMember(weight)), noMicrobatch},
                        weight);
  }
  case OpKind::Norm: // of gradients as their updates read them
    for (uint32_t stage : here)
      source.training.beforeNorm(stage, rows);
    return row(RuntimeOp::Norm, {OpKind::Norm, 0, 0, noMicrobatch}, none, none, none, none,
               op.has(Local) ? runtime::Local : 0);
  case OpKind::Update:
    return update(id);
  case OpKind::Unshard:
    source.training.gather(op);
    return withoutSlots(RuntimeOp::Unshard, op);
  case OpKind::Reshard:
    source.training.gather(op);
    return row(RuntimeOp::Reshard, op);
  case OpKind::SendActivation:
  case OpKind::RecvActivation:
  case OpKind::SendGradient:
  case OpKind::RecvGradient:
    break;
  }
  llvm_unreachable("messages are lowered by statement");
}

/// What has a start and a wait, and no slots.
void DeviceRows::withoutSlots(RuntimeOp kind, const Op &op, uint32_t weight) {
  if (op.isWait())
    return row(RuntimeOp::Wait, op, none, static_cast<uint32_t>(kind), none, weight);
  row(kind, op, none, none, none, weight, op.isStarted() ? runtime::Started : 0);
}

uint32_t DeviceRows::lowestMember(uint32_t weight) const {
  uint32_t lowest = program.stages;
  for (uint32_t stage : program.ties[weight].stages)
    for (uint32_t each : program.devicesOf(stage))
      if (each == device)
        lowest = std::min(lowest, stage);
  assert(lowest < program.stages && "a tied weight is reduced where none of its stages is");
  return lowest;
}

void DeviceRows::forward(OpId id) {
  const Op &op = program.ops[id];
  const uint32_t s = op.stage, m = op.microbatch;
  if (s > 0 && held(s, m).input == none) { // the stage before is on this device
    const uint32_t handed = std::exchange(held(s - 1, m).output, none);
    held(s, m).input = handed;
  }
  Held &it = held(s, m);
  if (s == 0) {
    it.input = boundaries.take();
    row(RuntimeOp::Load, op, it.input);
  }
  assert(it.input != none && "a forward without its input");

  it.output = boundaries.take();
  if (!op.has(KeepInput) && !op.has(KeepNothing))
    it.saved = saveds.take();
  skipInputs(op);
  skipOutputs(op);
  carryOperand(op);
  weightsOperand(id);
  const uint8_t flags =
      (op.has(KeepInput) ? runtime::KeepInput : 0) | (op.has(KeepNothing) ? runtime::KeepNothing : 0);
  row(RuntimeOp::Forward, op, it.input, it.output, it.saved, none, flags);

  if (index.recompute(s, m) == noOp)
    releaseInputs(it, op);
  const bool isUsed = s + 1 < program.stages ? index.forward(s + 1, m) != noOp : index.backward(s, m) != noOp;
  if (!isUsed)
    boundaries.release(it.output);
  for (uint32_t skip = 0; skip < program.skips.size(); ++skip)
    if (program.skips[skip].from == s && index.forward(program.skips[skip].to, m) == noOp)
      boundaries.release(heldOver(skip, m).activationMade);
  releaseCarry(op);
}

void DeviceRows::backward(OpId id, RuntimeOp kind) {
  const Op &op = program.ops[id];
  const uint32_t s = op.stage, m = op.microbatch;
  if (s + 1 < program.stages && held(s, m).gradient == none) { // the stage behind is on this device
    const uint32_t handed = std::exchange(held(s + 1, m).inputGradient, none);
    held(s, m).gradient = handed;
  }
  Held &it = held(s, m);
  if (s + 1 == program.stages) {
    it.gradient = boundaries.take();
    row(RuntimeOp::Loss, op, it.output, it.gradient);
    boundaries.release(it.output);
  }
  assert(it.gradient != none && it.saved != none && "a backward without its gradient or activation");

  if (s > 0)
    it.inputGradient = boundaries.take();
  if (kind == RuntimeOp::BackwardInput)
    it.pending = pendings.take();
  skipInputs(op);
  skipOutputs(op);
  carryOperand(op);
  weightsOperand(id);
  factorOperand(id);
  source.training.contribution(op, rows.size());
  row(kind, op, it.gradient, it.inputGradient, it.saved, it.pending);

  boundaries.release(it.gradient);
  saveds.release(it.saved);
  if (s > 0 && index.backward(s - 1, m) == noOp)
    boundaries.release(it.inputGradient);
  for (uint32_t skip = 0; skip < program.skips.size(); ++skip) {
    const SkipEdge &edge = program.skips[skip];
    if (!edge.hasGradient)
      continue;
    if (edge.from == s)
      boundaries.release(heldOver(skip, m).gradientCome);
    if (edge.to == s && index.backward(edge.from, m) == noOp)
      boundaries.release(heldOver(skip, m).gradientMade);
  }
  releaseCarry(op);
}

void DeviceRows::recompute(OpId id) {
  const Op &op = program.ops[id];
  Held &it = held(op.stage, op.microbatch);
  assert(it.input != none && "a recompute without the kept input");
  it.saved = saveds.take();
  skipInputs(op);
  carryOperand(op);
  weightsOperand(id);
  row(RuntimeOp::Recompute, op, it.input, none, it.saved);
  releaseInputs(it, op);
}

void DeviceRows::drop(const Op &op) {
  Held &it = held(op.stage, op.microbatch);
  row(RuntimeOp::Drop, op, none, none, it.saved, it.host);
  saveds.release(it.saved);
  hosts.release(it.host);
  if (!op.has(sluice::KeepInput))
    releaseInputs(it, op);
}

void DeviceRows::offload(const Op &op) {
  Held &it = held(op.stage, op.microbatch);
  if (op.isWait()) {
    row(RuntimeOp::Wait, op, none, static_cast<uint32_t>(RuntimeOp::Offload), it.saved, it.host);
    return saveds.release(it.saved);
  }
  it.host = hosts.take();
  row(RuntimeOp::Offload, op, none, none, it.saved, it.host, op.isStarted() ? runtime::Started : 0);
  if (!op.isStarted())
    saveds.release(it.saved);
}

void DeviceRows::reload(const Op &op) {
  Held &it = held(op.stage, op.microbatch);
  if (op.isWait()) {
    row(RuntimeOp::Wait, op, none, static_cast<uint32_t>(RuntimeOp::Reload), it.saved, it.host);
    return hosts.release(it.host);
  }
  it.saved = saveds.take();
  row(RuntimeOp::Reload, op, none, none, it.saved, it.host, op.isStarted() ? runtime::Started : 0);
  if (!op.isStarted())
    hosts.release(it.host);
}

void DeviceRows::update(OpId id) {
  const Op &op = program.ops[id];
  source.training.beforeUpdate(op.stage, rows);
  if (hasVersions[local(op.stage)])
    row(RuntimeOp::Update, op, source.versions.reads[id], source.versions.writes[id]);
  else
    row(RuntimeOp::Update, op);
}

/// A send, a receive, a wait for one, or a group of them: all are started, then waited for. The op behind it.
OpId DeviceRows::messages(OpId first, OpId limit) {
  if (program.ops[first].isWait()) {
    wait(first);
    return first + 1;
  }
  const OpId end = program.ops[first].has(GroupFirst) ? std::min(program.postedEnd(first), limit) : first + 1;
  for (OpId id = first; id < end; ++id) {
    const uint8_t flags = (id == first ? runtime::GroupFirst : 0) | (id + 1 == end ? runtime::GroupLast : 0);
    message(id, end - first > 1 ? flags : 0);
  }
  if (!source.waitsLazily)
    for (OpId id = first; id < end; ++id)
      if (!program.ops[id].isStarted())
        wait(id);
  return end;
}

static runtime::Op messageOp(OpKind kind) {
  switch (kind) {
  case OpKind::SendActivation:
    return runtime::Op::SendActivation;
  case OpKind::RecvActivation:
    return runtime::Op::ReceiveActivation;
  case OpKind::SendGradient:
    return runtime::Op::SendGradient;
  default:
    return runtime::Op::ReceiveGradient;
  }
}

/// Where what a send or receive carries is at this end.
uint32_t &DeviceRows::slotOf(OpId id) {
  const Op &op = program.ops[id];
  const bool isGradient = op.kind == OpKind::SendGradient || op.kind == OpKind::RecvGradient;
  if (const uint32_t skip = source.channels.skipOf(id); skip != MessageChannels::noSkip) {
    SkipHeld &over = heldOver(skip, op.microbatch);
    if (op.isSend())
      return isGradient ? over.gradientMade : over.activationMade;
    return isGradient ? over.gradientCome : over.activationCome;
  }
  Held &it = held(op.stage, op.microbatch);
  if (op.isSend())
    return isGradient ? it.inputGradient : it.output;
  return isGradient ? it.gradient : it.input;
}

void DeviceRows::message(OpId id, uint8_t flags) {
  const Op &op = program.ops[id];
  uint32_t &slot = slotOf(id);
  if (!op.isSend())
    slot = boundaries.take();
  assert(slot != none && "a send of what is not there");
  const uint32_t skip = source.channels.skipOf(id);
  row(messageOp(op.kind), op, slot, source.channels.of(id), skip == MessageChannels::noSkip ? none : skip,
      none, flags);
  if (op.isSend() && source.waitsLazily)
    boundaries.release(slot);
}

void DeviceRows::wait(OpId id) {
  const Op &op = program.ops[id];
  uint32_t &slot = slotOf(id);
  row(RuntimeOp::Wait, op, slot, static_cast<uint32_t>(messageOp(op.kind)));
  if (op.isSend())
    boundaries.release(slot);
}

/// What comes over skip edges: to a forward (kept for its recompute) activations, to a backward gradients.
void DeviceRows::skipInputs(const Op &op) {
  const bool isBackward = op.makesGradient();
  for (uint32_t skip = 0; skip < program.skips.size(); ++skip) {
    const SkipEdge &edge = program.skips[skip];
    if (isBackward ? edge.from != op.stage || !edge.hasGradient : edge.to != op.stage)
      continue;
    SkipHeld &over = heldOver(skip, op.microbatch);
    uint32_t &slot = isBackward ? over.gradientCome : over.activationCome;
    if (slot == none) // the other stage is on this device
      slot = std::exchange(isBackward ? over.gradientMade : over.activationMade, none);
    assert(slot != none && "an op without what comes over a skip edge");
    row(RuntimeOp::SkipInput, op, slot, skip);
  }
}

void DeviceRows::skipOutputs(const Op &op) {
  const bool isBackward = op.makesGradient();
  for (uint32_t skip = 0; skip < program.skips.size(); ++skip) {
    const SkipEdge &edge = program.skips[skip];
    if (isBackward ? edge.to != op.stage || !edge.hasGradient : edge.from != op.stage)
      continue;
    SkipHeld &over = heldOver(skip, op.microbatch);
    uint32_t &slot = isBackward ? over.gradientMade : over.activationMade;
    slot = boundaries.take();
    row(RuntimeOp::SkipOutput, op, slot, skip);
  }
}

void DeviceRows::releaseInputs(Held &it, const Op &op) {
  boundaries.release(it.input);
  for (uint32_t skip = 0; skip < program.skips.size(); ++skip)
    if (program.skips[skip].to == op.stage)
      boundaries.release(heldOver(skip, op.microbatch).activationCome);
}

/// One carry for all splits of a microbatch: taken by the first forward.
void DeviceRows::carryOperand(const Op &op) {
  if (program.sequenceSplits == 1)
    return;
  uint32_t &carry = carryOf[static_cast<size_t>(local(op.stage)) * program.wholeMicrobatches() +
                            op.microbatch / program.sequenceSplits];
  if (carry == none)
    carry = carries.take();
  row(RuntimeOp::Carry, op, carry);
}

/// Behind the last op that needs it: the backward of the first split, or without one the last split's
/// forward.
void DeviceRows::releaseCarry(const Op &op) {
  if (program.sequenceSplits == 1)
    return;
  const uint32_t whole = op.microbatch / program.sequenceSplits;
  const bool isLast = op.kind == OpKind::Forward
                          ? !program.hasSplitBehind(op.microbatch) &&
                                index.backward(op.stage, whole * program.sequenceSplits) == noOp
                          : !program.hasSplitBefore(op.microbatch);
  if (isLast)
    carries.release(carryOf[static_cast<size_t>(local(op.stage)) * program.wholeMicrobatches() + whole]);
}

void DeviceRows::weightsOperand(OpId id) {
  const Op &op = program.ops[id];
  if (hasVersions[local(op.stage)])
    row(RuntimeOp::Weights, op, source.versions.reads[id]);
}

void DeviceRows::factorOperand(OpId id) {
  const Op &op = program.ops[id];
  if (op.hasFactor())
    row(RuntimeOp::Factor, op, none, none, none, source.training.factor(program.factorOf(id)));
}

} // namespace sluice
