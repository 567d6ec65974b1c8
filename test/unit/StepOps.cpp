#include "StepRun.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice::machine {

static bool isAllowed(const Statement &op, State state) {
  switch (op.word) {
  case Word::Forward:
    return state == State::None;
  case Word::Recompute:
    return state == State::Input;
  case Word::Backward:
  case Word::BackwardInput:
    return state == State::Saved;
  case Word::BackwardWeight:
    return state == State::Half;
  case Word::Drop:
    return state == State::Input || state == State::Saved || (state == State::Host && op.kept != Kept::Input);
  case Word::Offload:
    return state == (op.prefix == Prefix::Wait ? State::Leaving : State::Saved);
  case Word::Reload:
    return state == (op.prefix == Prefix::Wait ? State::Coming : State::Host);
  default:
    return true;
  }
}

static State after(const Statement &op) {
  switch (op.word) {
  case Word::Forward:
    return op.kept == Kept::All ? State::Saved : op.kept == Kept::Input ? State::Input : State::Gone;
  case Word::Drop:
    return op.kept == Kept::Input ? State::Input : State::Gone;
  case Word::Offload:
    return op.prefix == Prefix::Start ? State::Leaving : State::Host;
  case Word::Reload:
    return op.prefix == Prefix::Start ? State::Coming : State::Saved;
  case Word::Recompute:
    return State::Saved;
  case Word::BackwardInput:
    return State::Half;
  default:
    return State::Done;
  }
}

/// Before any member of an overlap has run.
void Machine::check(uint32_t device, const Statement &op) {
  if (!isAllowed(op, stateOf(device, op)))
    wrong(2, device, op, fmt::format("finds state {}", static_cast<int>(stateOf(device, op))));
  if (op.word == Word::Forward)
    checkInputs(device, op, false);
  else if (op.word == Word::Backward || op.word == Word::BackwardInput)
    checkInputs(device, op, true);
  if (op.isCompute() && op.word != Word::BackwardWeight)
    checkWeights(device, op);
}

void Machine::checkInputs(uint32_t device, const Statement &op, bool isGradient) {
  const uint32_t step = devices[device].step;
  for (uint32_t other : isGradient ? setting.behind(op.stage, true) : setting.before(op.stage, false)) {
    const Value value{step, other, op.microbatch};
    const bool isLocal = setting.device(other, op.microbatch) == device;
    if (isLocal && (isGradient ? inputGradients.count(value) == 0 : outputs.count(value) == 0))
      wrong(2, device, op, fmt::format("needs what stage {} has not made", other));
    if (!isLocal && setting.isExplicit && !received.count({step, isGradient, other, op.stage, op.microbatch}))
      wrong(4, device, op, fmt::format("needs what it has not received of stage {}", other));
  }
  const uint32_t split = op.microbatch % setting.splits;
  if (!isGradient && split > 0 && !outputs.count({step, op.stage, op.microbatch - 1}))
    wrong(2, device, op, "needs the split before");
  if (isGradient && split + 1 < setting.splits && !inputGradients.count({step, op.stage, op.microbatch + 1}))
    wrong(2, device, op, "needs the split behind");
}

/// Present, and of the version the op should read.
void Machine::checkWeights(uint32_t device, const Statement &op) {
  Weights &held = weights[{device, op.stage}];
  const Value value = valueOf(device, op);
  uint32_t version = held.newest;
  if (op.word == Word::Forward) {
    version = op.version.value_or(held.newest);
    if (version > held.newest || (setting.versions == Read::Newest && version != held.newest))
      wrong(6, device, op, fmt::format("needs version {}", version));
    version = std::min(version, held.newest);
    versions[value] = version;
    if (setting.versions == Read::Queued)
      held.pushed.push_back(version);
  } else if (setting.versions != Read::Newest && versions.count(value))
    version = versions[value];
  if (setting.versions == Read::Queued && (op.word == Word::Backward || op.word == Word::BackwardInput) &&
      !held.pushed.empty()) {
    if (held.pushed.front() != version)
      wrong(6, device, op, fmt::format("pops version {}", held.pushed.front()));
    held.pushed.pop_front();
  }
  if (!held.isTracked)
    return;
  if (!held.isPresent)
    wrong(6, device, op, "has no weights");
  else if (held.content != version)
    wrong(6, device, op, fmt::format("runs on version {} instead of {}", held.content, version));
}

Rational Machine::arriving(uint32_t device, const Statement &op) {
  std::optional<Rational> factor;
  for (uint32_t other : setting.behind(op.stage, true)) {
    auto found = inputGradients.find({devices[device].step, other, op.microbatch});
    if (found == inputGradients.end())
      continue;
    if (factor && !(*factor == found->second) && gradients.isApplied())
      wrong(5, device, op, "gets gradients of unlike factors");
    factor = found->second;
  }
  return factor ? *factor : lossFactor(op.microbatch);
}

/// In a program that never drains every update has a loss of its own, over what it reads: factors count in
/// parts of what that one wants.
Rational Machine::lossFactor(uint32_t microbatch) const {
  return setting.isAsynchronous ? Rational(1) : own(setting, microbatch);
}

void Machine::apply(uint32_t device, const Statement &op) {
  const Value value = valueOf(device, op);
  State &state = stateOf(device, op);
  if (op.isCompute() && !isAllowed(op, state) && op.follows)
    wrong(2, device, op, "finds its state changed by its own overlap");
  state = after(op);
  const Rational suffix = op.factor.value_or(1);
  const uint32_t step = devices[device].step;
  switch (op.word) {
  case Word::Forward:
    outputs.insert(value);
    break;
  case Word::Backward:
  case Word::BackwardInput: {
    const Rational factor = arriving(device, op);
    arrived[value] = factor;
    inputGradients[value] = times(factor, suffix);
    if (op.word == Word::Backward)
      gradients.contribute(device, step, op, times(factor, suffix), versions[value]);
    break;
  }
  case Word::BackwardWeight:
    gradients.contribute(device, step, op, times(arrived.count(value) ? arrived[value] : Rational(1), suffix),
                         versions[value]);
    break;
  default:
    break;
  }
}

void Machine::moveActivation(uint32_t device, const Statement &op) {
  State &state = stateOf(device, op);
  if (!isAllowed(op, state))
    wrong(2, device, op, fmt::format("finds state {}", static_cast<int>(state)));
  if (op.word == Word::Drop && leaving.count(valueOf(device, op)))
    wrong(4, device, op, "frees what is being sent");
  state = after(op);
}

void Machine::execute(uint32_t device, const Posted &posted) {
  const Statement &op = *posted.op;
  const uint32_t step = devices[device].step;
  if (op.isCompute())
    return apply(device, op);
  switch (op.word) {
  case Word::Drop:
  case Word::Offload:
  case Word::Reload:
    return moveActivation(device, op);
  case Word::RecvActivation:
  case Word::RecvGradient:
    if (op.prefix != Prefix::Start)
      received.insert(*messageOf(device, op));
    return;
  case Word::SendActivation:
    if (op.prefix == Prefix::Start)
      leaving.insert(valueOf(device, op));
    else if (auto sent = leaving.find(valueOf(device, op));
             op.prefix == Prefix::Wait && sent != leaving.end())
      leaving.erase(sent);
    return;
  case Word::Zero:
    return gradients.zero(device, step, op.stage);
  case Word::Scale:
    return gradients.scale(device, step, op);
  case Word::Reduce:
  case Word::ReduceTied:
    if (op.prefix == Prefix::Wait)
      gradients.wait(device, op);
    return;
  case Word::Update:
    return update(device, op);
  case Word::Unshard:
  case Word::Reshard:
    return changeWeights(device, op);
  default:
    return;
  }
}

/// A gather under way leaves what is there until its wait; to drop the weights ends it.
void Machine::changeWeights(uint32_t device, const Statement &op) {
  Weights &held = weights[{device, op.stage}];
  if (op.word == Word::Reshard) {
    held.isPresent = held.isComing = false;
    return;
  }
  if (op.prefix != Prefix::Wait) {
    held.isComing = true;
    held.coming = held.newest;
  }
  if (op.prefix == Prefix::Start || !held.isComing)
    return;
  held.isPresent = true;
  held.isComing = false;
  held.content = held.coming;
}

void Machine::update(uint32_t device, const Statement &op) {
  Weights &held = weights[{device, op.stage}];
  gradients.update(device, devices[device].step, op.stage, held.newest);
  ++held.newest;
  if (setting.mostVersions == 0 || setting.versions == Read::Newest)
    return;
  // Versions that someone still reads: backwards of forwards that have run, and forwards that name one.
  std::set<uint32_t> needed = {held.newest};
  const std::vector<Statement> &ops = program.devices[device];
  for (size_t at = devices[device].at; at < ops.size(); ++at) {
    const Statement &later = ops[at];
    if (later.stage != op.stage || !later.isCompute() || later.word == Word::BackwardWeight)
      continue;
    auto read = versions.find(valueOf(device, later));
    if (later.word == Word::Forward && later.version && *later.version <= held.newest)
      needed.insert(*later.version);
    else if (later.word != Word::Forward && read != versions.end())
      needed.insert(read->second);
  }
  if (needed.size() > setting.mostVersions)
    wrong(6, device, op, "drops a version that is still needed");
}

} // namespace sluice::machine
