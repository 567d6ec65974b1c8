#include "Verify/Residency.h"

#include "llvm/ADT/STLExtras.h"

#include <utility>

namespace sluice {

namespace {

enum class Presence : uint8_t { Absent, Coming, Present };

/// The weights of one stage on the device at hand.
struct Copy {
  bool isUnsharded = false, isResharded = false; ///< By an op of this device, or an op's side effect.
  bool isTracked = false;                        ///< Else its weights are always there.
  bool isCancelled = false;                      ///< Dropped while they were coming.
  Presence presence = Presence::Present;
  uint32_t version = 0, newest = 0; ///< Of the weights present or coming; of all.
  OpId changedBy = noOp;            ///< What gathered, started to gather or dropped them.
  OpId update = noOp;
  bool isChangeOld = false, isUpdateOld = false; ///< They ran in the step before.
  OpId firstUnshard = noOp;
  uint32_t lack = ~0u;   ///< Into ResidencyWalk::lacks.
  unsigned lackTurn = 0; ///< The step in which it was found.
};

class Walker {
public:
  explicit Walker(const VerifyContext &context)
      : program(context.program), costs(context.costs), steps(context.costs.asynchronous ? 1 : 2),
        copies(program.stages), unshardedAnywhere(program.stages) {
    for (const Op &op : program.ops)
      if (op.kind == OpKind::Unshard)
        unshardedAnywhere[op.stage] = true;
  }
  ResidencyWalk run();

private:
  bool prepare();
  void beginStep();
  void step(OpId id);
  void unshard(OpId id, Copy &copy);
  void drop(OpId id, Copy &copy);
  void use(OpId id, Copy &copy);
  void lack(OpId id, Copy &copy, Rule rule, uint8_t cause, OpId other, bool isOld);
  void unchanged(OpId id, NoChange cause, OpId other);
  uint32_t wantedBy(OpId id, const Copy &copy) const;
  bool dropsWeights(const Op &op) const {
    return op.kind == OpKind::Reshard ||
           (costs.reshardsAfterReduce && op.kind == OpKind::Reduce && !op.isWait());
  }

  const Program &program;
  const CostModel &costs;
  const unsigned steps;
  uint32_t device = 0;
  unsigned turn = 0;
  std::vector<Copy> copies; // per stage
  std::vector<bool> unshardedAnywhere;
  std::vector<uint32_t> newestAtBegin; // per stage, of the step
  std::vector<Fault> idle;             // of this step, of the device at hand
  std::vector<Fault> idleBefore;       // and of the step before: both in program order
  ResidencyWalk walk;
};

} // namespace

/// False if no stage of the device is gathered or dropped.
bool Walker::prepare() {
  copies.assign(program.stages, {});
  bool any = false;
  for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
    const Op &op = program.ops[id];
    Copy &copy = copies[op.stage];
    if (op.kind == OpKind::Unshard) {
      copy.isUnsharded = any = true;
      if (copy.firstUnshard == noOp)
        copy.firstUnshard = id;
    } else if (dropsWeights(op)) {
      copy.isResharded = true;
      any |= op.kind == OpKind::Reshard;
    }
  }
  for (uint32_t stage = 0; stage < program.stages; ++stage) {
    Copy &copy = copies[stage];
    copy.isTracked = copy.isUnsharded || (copy.isResharded && unshardedAnywhere[stage]);
    if (copy.isTracked && copy.isResharded)
      copy.presence = Presence::Absent;
    any |= copy.isTracked;
  }
  return any;
}

void Walker::lack(OpId id, Copy &copy, Rule rule, uint8_t cause, OpId other, bool isOld) {
  const Op &op = program.ops[id];
  if (copy.lack == ~0u) {
    copy.lack = static_cast<uint32_t>(walk.lacks.size());
    copy.lackTurn = turn;
    walk.lacks.push_back(
        {{rule, cause, device, op.stage, noMicrobatch, id, other}, copy.version, copy.newest, isOld, {}});
    return;
  }
  WeightLack &first = walk.lacks[copy.lack];
  if (copy.lackTurn == turn && first.fault.rule == rule && first.fault.other == other)
    first.also.push_back(id);
}

/// The version that an op has to find: forwards the newest or the one they name, backwards the newest where
/// they read that; where they read what their forward did, a stash keeps it.
uint32_t Walker::wantedBy(OpId id, const Copy &copy) const {
  const Op &op = program.ops[id];
  if (op.kind != OpKind::Forward)
    return program.versions == VersionRule::Newest || !costs.asynchronous ? copy.newest : 0;
  auto named = llvm::lower_bound(program.namedVersions, id,
                                 [](const NamedVersion &entry, OpId op) { return entry.op < op; });
  if (named == program.namedVersions.end() || named->op != id)
    return copy.newest;
  return std::min(named->version + newestAtBegin[op.stage], copy.newest);
}

void Walker::use(OpId id, Copy &copy) {
  if (copy.presence == Presence::Coming)
    lack(id, copy, Rule::WeightsNotResident, StillComing, copy.changedBy, copy.isChangeOld);
  else if (copy.presence == Presence::Absent)
    lack(id, copy, Rule::WeightsNotResident, copy.changedBy == noOp ? NeverGathered : Dropped, copy.changedBy,
         copy.isChangeOld);
  else if (copy.version < wantedBy(id, copy))
    lack(id, copy, Rule::StaleWeights, 0, copy.update, copy.isUpdateOld);
}

void Walker::unchanged(OpId id, NoChange cause, OpId other) {
  idle.push_back({Rule::ResidencyUnchanged, cause, device, program.ops[id].stage, noMicrobatch, id, other});
}

void Walker::unshard(OpId id, Copy &copy) {
  const Op &op = program.ops[id];
  if (op.isWait()) {
    // Without a start, which is rule 308, the weights come all the same.
    if (copy.presence == Presence::Coming || (copy.presence == Presence::Absent && !copy.isCancelled)) {
      copy.version = copy.presence == Presence::Coming ? copy.version : copy.newest;
      copy.presence = Presence::Present;
    }
    return;
  }
  const bool isFresh = copy.presence != Presence::Absent && copy.version == copy.newest;
  // The first one of weights that are there from the start says that they are gathered at all.
  if (isFresh && id != copy.firstUnshard)
    unchanged(id, copy.presence == Presence::Coming ? IsComing : IsFresh, copy.changedBy);
  if (isFresh && copy.presence == Presence::Present)
    return;
  copy.presence = op.isStarted() ? Presence::Coming : Presence::Present;
  copy.version = copy.newest;
  copy.changedBy = id;
  copy.isChangeOld = copy.isCancelled = false;
}

void Walker::drop(OpId id, Copy &copy) {
  const bool isReshard = program.ops[id].kind == OpKind::Reshard;
  if (!copy.isTracked || copy.presence == Presence::Absent) {
    if (isReshard)
      unchanged(id, copy.isTracked ? IsAbsent : IsAlwaysThere, copy.changedBy);
    return;
  }
  copy.isCancelled = copy.presence == Presence::Coming;
  copy.presence = Presence::Absent;
  copy.changedBy = id;
  copy.isChangeOld = false;
}

void Walker::step(OpId id) {
  const Op &op = program.ops[id];
  Copy &copy = copies[op.stage];
  switch (op.kind) {
  case OpKind::Forward:
  case OpKind::Backward:
  case OpKind::BackwardInput:
  case OpKind::Recompute:
    if (copy.isTracked)
      use(id, copy);
    break;
  case OpKind::Unshard:
    unshard(id, copy);
    break;
  case OpKind::Update:
    ++copy.newest;
    copy.update = id;
    copy.isUpdateOld = false;
    break;
  default:
    if (dropsWeights(op))
      drop(id, copy);
    break;
  }
}

void Walker::beginStep() {
  newestAtBegin.clear();
  for (Copy &copy : copies) {
    newestAtBegin.push_back(copy.newest);
    copy.isChangeOld = copy.isUpdateOld = true;
  }
  idleBefore = std::exchange(idle, {});
}

ResidencyWalk Walker::run() {
  for (device = 0; device < program.devices; ++device) {
    if (!prepare())
      continue;
    idle.clear();
    for (turn = 0; turn < steps; ++turn) {
      beginStep();
      for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id)
        step(id);
    }
    auto isOfBoth = [&](const Fault &fault) {
      auto before =
          llvm::lower_bound(idleBefore, fault.op, [](const Fault &entry, OpId op) { return entry.op < op; });
      return steps == 1 || (before != idleBefore.end() && before->op == fault.op);
    };
    for (const Fault &fault : idle)
      if (copies[fault.stage].lack == ~0u && isOfBoth(fault))
        walk.idle.push_back(fault);
  }
  return std::move(walk);
}

ResidencyWalk walkResidency(const VerifyContext &context) { return Walker(context).run(); }

} // namespace sluice
