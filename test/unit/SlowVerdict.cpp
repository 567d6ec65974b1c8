#include "SlowModel.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tuple>

namespace sluice::slow {

bool Verdict::fails(unsigned rule) const {
  return std::any_of(failing.begin(), failing.end(), [&](const Fault &fault) { return fault.rule == rule; });
}

bool Verdict::isLegal() const {
  return std::all_of(failing.begin(), failing.end(), [](const Fault &fault) { return fault.rule == 209; });
}

std::string Verdict::str() const {
  std::string text = "expected:";
  for (const Fault &fault : failing)
    text += fmt::format(" {} at ({}, {})", fault.rule, fault.stage, static_cast<int32_t>(fault.microbatch));
  for (const std::set<unsigned> &rules : blamed)
    text += fmt::format("; blamed {}", fmt::join(rules, " "));
  return text + "\n";
}

namespace {

/// What a device holds of one stage and microbatch, in the order of its life.
enum class State { None, Gone, Input, Saved, Half, Done };

using Pair = std::pair<uint32_t, uint32_t>; ///< Stage, microbatch.

/// Where the definition leaves open which of two rules names a fault, or what a faulty op leaves behind,
/// every reading is tried.
struct Reading {
  bool faultyHasEffect;     ///< A faulty op takes its pair a step further, or leaves its state.
  bool faultyDropHasEffect; ///< The same of a faulty drop.
  bool repeatedIsDuplicate; ///< A repeated recompute or drop is 203, or what its state makes it.
};

/// One device program, step by step: the checks look at the state before a step, `apply` changes it.
struct Walk {
  const Program &program;
  uint32_t device;
  Reading reading;
  std::set<Fault> &failing;
  std::map<Pair, State> state;
  /// What has run; `backward` and `backward_input` are one kind.
  std::set<std::tuple<OpKind, uint32_t, uint32_t>> ran;

  State stateOf(const Op &op) const {
    auto found = state.find({op.stage, op.microbatch});
    return found == state.end() ? State::None : found->second;
  }
  void fault(unsigned rule, const Op &op) { failing.insert({rule, device, op.stage, op.microbatch}); }
  bool hasRun(OpKind kind, uint32_t stage, uint32_t microbatch) const {
    return ran.count({kind, stage, microbatch}) != 0;
  }
  void checkState(const Op &op, const std::set<OpKind> &made);
  void checkNeighbour(const Op &op, OpId first, OpId end);
  void apply(const Op &op);
  void run();
};

} // namespace

static OpKind kindOf(const Op &op) { return op.kind == OpKind::BackwardInput ? OpKind::Backward : op.kind; }

static bool standsHere(const Program &program, uint32_t device, const Op &op) {
  if (op.hasMicrobatch())
    return program.deviceOf(op.stage, op.microbatch) == device;
  std::vector<uint32_t> stages = program.stagesOn(device);
  return std::find(stages.begin(), stages.end(), op.stage) != stages.end();
}

/// State in which an op may run, and the rule where it is another one.
static std::pair<std::set<State>, unsigned> allowed(OpKind kind) {
  switch (kind) {
  case OpKind::Forward:
    return {{State::None}, 203};
  case OpKind::Recompute:
    return {{State::Input}, 208};
  case OpKind::BackwardWeight:
    return {{State::Half}, 207};
  case OpKind::Drop:
    return {{State::Input, State::Saved}, 206};
  default:
    return {{State::Saved}, 206};
  }
}

/// `made`: kinds of the same stage and microbatch among the other members of the overlap.
void Walk::checkState(const Op &op, const std::set<OpKind> &made) {
  auto [states, rule] = allowed(op.kind);
  if (made.count(kindOf(op)))
    return fault(203, op);
  if (states.count(stateOf(op))) { // a pair is in one state: two members cannot both change it
    if (!made.empty())
      fault(210, op);
    return;
  }
  bool repeated = hasRun(kindOf(op), op.stage, op.microbatch), dependsOnOverlap = false;
  switch (op.kind) {
  case OpKind::Forward:
    if (repeated) // otherwise it only comes too late, which is not its fault
      fault(203, op);
    return;
  case OpKind::Recompute:
    dependsOnOverlap = made.count(OpKind::Forward) || made.count(OpKind::Drop);
    repeated = stateOf(op) == State::Saved || (repeated && reading.repeatedIsDuplicate);
    break;
  case OpKind::Drop:
    dependsOnOverlap = made.count(OpKind::Forward) || made.count(OpKind::Recompute);
    repeated = repeated && reading.repeatedIsDuplicate;
    break;
  case OpKind::BackwardWeight:
    dependsOnOverlap = made.count(OpKind::Backward);
    repeated = stateOf(op) == State::Done; // by itself or in a whole backward
    break;
  default:
    dependsOnOverlap = made.count(OpKind::Forward) || made.count(OpKind::Recompute);
  }
  fault(dependsOnOverlap ? 210 : repeated ? 203 : rule, op);
}

/// A producer on this device must stand earlier; one on another device is the cycle's affair.
void Walk::checkNeighbour(const Op &op, OpId first, OpId end) {
  OpKind kind = kindOf(op);
  if (kind != OpKind::Forward && kind != OpKind::Backward)
    return;
  if (kind == OpKind::Forward ? op.stage == 0 : op.stage + 1u == program.stages)
    return;
  const uint32_t stage = kind == OpKind::Forward ? op.stage - 1u : op.stage + 1u;
  if (program.deviceOf(stage, op.microbatch) != device || hasRun(kind, stage, op.microbatch))
    return;
  for (OpId id = first; id < program.deviceBegin[device + 1]; ++id) {
    const Op &other = program.ops[id];
    if (kindOf(other) == kind && other.stage == stage && other.microbatch == op.microbatch)
      return fault(id < end ? 210 : kind == OpKind::Forward ? 204 : 205, op);
  }
}

static State after(const Op &op) {
  switch (op.kind) {
  case OpKind::Forward:
    return op.has(KeepInput) ? State::Input : op.has(KeepNothing) ? State::Gone : State::Saved;
  case OpKind::Recompute:
    return State::Saved;
  case OpKind::BackwardInput:
    return State::Half;
  case OpKind::Drop:
    return op.has(KeepInput) ? State::Input : State::Gone;
  default:
    return State::Done;
  }
}

void Walk::apply(const Op &op) {
  ran.insert({kindOf(op), op.stage, op.microbatch});
  const State before = stateOf(op);
  bool hasEffect = op.kind == OpKind::Drop ? reading.faultyDropHasEffect : reading.faultyHasEffect;
  if (allowed(op.kind).first.count(before) || (hasEffect && after(op) > before))
    state[{op.stage, op.microbatch}] = after(op);
}

void Walk::run() {
  for (OpId first = program.deviceBegin[device], end; first < program.deviceBegin[device + 1]; first = end) {
    end = first + 1;
    while (end < program.deviceBegin[device + 1] && program.ops[end].has(OverlapFollower))
      ++end;
    for (OpId id = first; id < end; ++id) {
      const Op &op = program.ops[id];
      if (!op.hasMicrobatch() || !standsHere(program, device, op))
        continue;
      std::set<OpKind> made;
      for (OpId other = first; other < end; ++other)
        if (other != id && program.ops[other].stage == op.stage &&
            program.ops[other].microbatch == op.microbatch)
          made.insert(kindOf(program.ops[other]));
      checkState(op, made);
      checkNeighbour(op, first, end);
    }
    for (OpId id = first; id < end; ++id)
      if (program.ops[id].hasMicrobatch() && standsHere(program, device, program.ops[id]))
        apply(program.ops[id]);
  }
  for (uint32_t stage = 0; stage < program.stages; ++stage)
    for (uint32_t microbatch = 0; microbatch < program.microbatches; ++microbatch) {
      if (program.deviceOf(stage, microbatch) != device)
        continue;
      if (!hasRun(OpKind::Forward, stage, microbatch))
        failing.insert({201, device, stage, microbatch});
      else if (state[{stage, microbatch}] != State::Done)
        failing.insert({202, device, stage, microbatch});
    }
}

namespace {

/// The gradient accumulator of one stage's copy on one device, through its program.
struct Accumulator {
  const Program &program;
  const CostModel &costs;
  uint32_t device, stage;
  std::set<Fault> &failing;
  bool anyUpdate = false, anyReduce = false, anyZero = false; ///< Of any stage on any device.

  void fault(unsigned rule) { failing.insert({rule, device, stage, noMicrobatch}); }
  void run();
};

} // namespace

void Accumulator::run() {
  const size_t copies = program.devicesOf(stage).size();
  const bool isIdentity = copies == 1 && costs.replicas == 1;
  const bool mustReduce = copies > 1 || (costs.replicas ? *costs.replicas > 1 : anyReduce);
  std::vector<int> covered; // reductions over each contribution that no update has used
  bool updated = false, reduced = false;
  bool used = false;      // it holds what an update has applied: only a zero empties it
  bool discarded = false; // a zero has taken contributions since the last update
  for (const Op &op : program.opsOf(device)) {
    if (op.stage != stage || !standsHere(program, device, op))
      continue;
    if (op.kind == OpKind::Backward || op.kind == OpKind::BackwardWeight) {
      if (used || (discarded && !anyUpdate))
        fault(used ? 511 : 510);
      used = false;
      if (updated && !costs.asynchronous)
        fault(506);
      if (reduced && !costs.asynchronous && !isIdentity)
        fault(502);
      covered.push_back(0);
    } else if (op.kind == OpKind::Reduce) {
      for (int &times : covered)
        if (times++ > 0 && !isIdentity)
          fault(503);
      reduced = true;
    } else if (op.kind == OpKind::Update) {
      if (covered.empty() && !discarded)
        fault(514);
      if (mustReduce && std::count(covered.begin(), covered.end(), 0) > 0)
        fault(reduced ? 502 : 501);
      covered.clear();
      updated = true;
      used = anyZero;
      discarded = false;
      reduced = reduced && !costs.asynchronous;
    } else if (op.kind == OpKind::Zero) {
      if (!covered.empty()) {
        discarded = true;
        if (anyUpdate)
          fault(510);
        reduced = false;
      }
      covered.clear();
      used = false;
    }
  }
  // The same program once more, as far as what it has left matters.
  for (const Op &op : program.opsOf(device)) {
    if (!used || costs.asynchronous || op.stage != stage || !standsHere(program, device, op))
      continue;
    used = op.kind != OpKind::Zero;
    if (op.kind == OpKind::Update)
      break; // what stands behind has been judged above
    if (op.kind != OpKind::Backward && op.kind != OpKind::BackwardWeight)
      continue;
    fault(511);
    break;
  }
  if (anyUpdate && !covered.empty() && (!updated || costs.asynchronous))
    fault(505);
}

/// Of the rules that fail for one pair, or for one copy of a stage, the one that names the cause.
static unsigned firstCause(const std::set<unsigned> &rules) {
  for (unsigned rule :
       {801, 802, 201, 203, 204, 205, 207, 208, 206, 210, 202, 209, 505, 514, 510, 511, 506, 502, 503, 501})
    if (rules.count(rule))
      return rule;
  return 0;
}

/// A pair's cause silences its other faults, and those of the accumulator it adds to. Where a program never
/// ends, or ops stand on other devices, what follows from that is left to the words of the findings.
static std::set<unsigned> blame(const std::set<Fault> &failing) {
  std::set<unsigned> blamed;
  std::map<Pair, std::set<unsigned>> ofPair, ofCopy;
  std::set<Pair> silenced;
  std::set<uint32_t> unplaced, misplaced; // stages
  bool isStuck = false;
  for (const Fault &fault : failing) {
    isStuck |= fault.rule == stuck;
    if (fault.rule == 801)
      unplaced.insert(fault.stage);
    if (fault.rule == 802 && fault.microbatch == noMicrobatch)
      misplaced.insert(fault.stage);
    else if (fault.microbatch == noMicrobatch)
      ofCopy[{fault.device, fault.stage}].insert(fault.rule);
    else if (fault.rule != stuck)
      ofPair[{fault.stage, fault.microbatch}].insert(fault.rule);
    if (fault.rule != stuck && fault.rule != 209 && fault.microbatch != noMicrobatch)
      silenced.insert({fault.device, fault.stage});
  }
  for (const auto &[pair, rules] : ofPair)
    blamed.insert(firstCause(rules));
  for (uint32_t stage : misplaced)
    if (!unplaced.count(stage))
      blamed.insert(802);
  for (const auto &[copy, rules] : ofCopy)
    if (!silenced.count(copy) && !misplaced.count(copy.second) && !isStuck)
      blamed.insert(firstCause(rules));
  return blamed;
}

/// All that needs no walk through states: placement, gradients, the order.
static std::set<Fault> stateless(const Program &program, const CostModel &costs) {
  std::set<Fault> failing;
  for (uint32_t stage = 0; stage < program.stages; ++stage)
    for (uint32_t microbatch = 0; microbatch < program.microbatches; ++microbatch)
      if (program.deviceOf(stage, microbatch) == noDevice)
        failing.insert({801, noDevice, stage, microbatch});
  bool anyUpdate = false, anyReduce = false, anyZero = false;
  for (OpId id = 0; id < program.size(); ++id) {
    const Op &op = program.ops[id];
    anyUpdate |= op.kind == OpKind::Update;
    anyReduce |= op.kind == OpKind::Reduce;
    anyZero |= op.kind == OpKind::Zero;
    if (!standsHere(program, program.deviceOf(id), op))
      failing.insert({802, program.deviceOf(id), op.stage, op.microbatch});
    if (op.kind == OpKind::Recompute && !op.has(Replay) && costs.isRandom(op.stage))
      failing.insert({209, program.deviceOf(id), op.stage, op.microbatch});
  }
  for (uint32_t device = 0; device < program.devices; ++device)
    for (uint32_t stage : program.stagesOn(device))
      Accumulator{program, costs, device, stage, failing, anyUpdate, anyReduce, anyZero}.run();
  if (!run(program, costs).complete)
    failing.insert({stuck, noDevice, 0, 0});
  return failing;
}

Verdict judge(const Program &program, const CostModel &costs) {
  Verdict verdict;
  const std::set<Fault> common = stateless(program, costs);
  for (unsigned bits = 0; bits < 8; ++bits) {
    const Reading reading{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
    std::set<Fault> failing = common;
    for (uint32_t device = 0; device < program.devices; ++device)
      Walk{program, device, reading, failing, {}, {}}.run();
    verdict.blamed.insert(blame(failing));
    verdict.failing.insert(failing.begin(), failing.end());
  }
  return verdict;
}

} // namespace sluice::slow
