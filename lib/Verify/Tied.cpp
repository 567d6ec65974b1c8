#include "Verify/Tied.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

Ties::Ties(const Program &program, const Copies &copies) {
  if (program.ties.empty())
    return;
  also.resize(program.stages);
  for (const TiedWeight &weight : program.ties) {
    const llvm::ArrayRef<uint32_t> home = copies.devicesOf(weight.stages.front());
    isLocalTo.push_back(home.size() == 1 && llvm::all_of(weight.stages, [&](uint32_t stage) {
                          return copies.devicesOf(stage) == home;
                        }));
    if (isLocalTo.back())
      for (uint32_t stage : llvm::ArrayRef(weight.stages).drop_front())
        if (!llvm::is_contained(also[stage], weight.stages.front()))
          also[stage].push_back(weight.stages.front());
  }
}

namespace {

/// The share of one member stage in one weight, on the device being walked. As an accumulator of
/// `reduce_tied`; starts again at each update of the stage.
struct Share {
  uint32_t weight, stage;
  uint64_t pending = 0, covered = 0;
  OpId tied = noOp;       ///< The last reduce_tied since the last update.
  OpId leavingOut = noOp; ///< One that contributions have followed.
  OpId reduction = noOp;  ///< The last reduce since the last update.
};

class TiedWalk {
public:
  TiedWalk(const Program &program, const CostModel &costs, const Copies &copies, const Ties &ties,
           const GradientTerms &terms, std::vector<Fault> &faults, std::vector<Fault> &later)
      : program(program), costs(costs), copies(copies), ties(ties), terms(terms), faults(faults),
        later(later), before(program.ties.size(), noOp), behind(program.ties.size()) {}
  void walk(uint32_t device);
  /// Of all devices together: shares that are added up while some are reduced over the replicas already.
  void finish();

private:
  void reduceTied(OpId id);
  void update(Share &share, OpId id);
  Fault fault(Rule rule, const Share &share, OpId op, OpId other = noOp) const {
    return {rule, static_cast<uint8_t>(share.weight), device, share.stage, noMicrobatch, op, other};
  }

  const Program &program;
  const CostModel &costs;
  const Copies &copies;
  const Ties &ties;
  const GradientTerms &terms;
  std::vector<Fault> &faults, &later;
  uint32_t device = 0;
  std::vector<Share> shares;
  /// Per weight: a member's reduction in front of its reduce_tied, and those of members behind theirs.
  std::vector<OpId> before;
  std::vector<std::vector<Fault>> behind;
};

} // namespace

void TiedWalk::reduceTied(OpId id) {
  const Op &op = program.ops[id];
  bool isAgain = false, isSharded = false;
  for (Share &share : shares) {
    if (share.weight != op.microbatch)
      continue;
    if (share.reduction != noOp && before[share.weight] == noOp)
      before[share.weight] = share.reduction;
    if (share.covered > 0 && !isAgain)
      faults.push_back(fault(Rule::ReducedTwice, share, id, share.tied));
    isAgain |= share.covered > 0;
    if (costs.isSharded && share.reduction != noOp && !isSharded) {
      later.push_back(fault(Rule::TiedAfterShard, share, id, share.reduction));
      isSharded = true;
    }
    share.covered = share.pending;
    share.tied = id;
    if (terms.isAsynchronous)
      share.leavingOut = noOp;
  }
}

void TiedWalk::update(Share &share, OpId id) {
  if (share.tied == noOp && share.pending > 0) {
    OpId behind = id + 1;
    while (behind < program.deviceBegin[device + 1] &&
           !(program.ops[behind].kind == OpKind::ReduceTied && !program.ops[behind].isWait() &&
             program.ops[behind].microbatch == share.weight))
      ++behind;
    later.push_back(
        fault(Rule::MissingTiedReduce, share, id, behind < program.deviceBegin[device + 1] ? behind : noOp));
  } else if (share.leavingOut != noOp) {
    faults.push_back(fault(Rule::ContributionAfterReduce, share, share.leavingOut));
  }
  share = {share.weight, share.stage};
}

void TiedWalk::walk(uint32_t onDevice) {
  device = onDevice;
  shares.clear();
  for (uint32_t weight = 0; weight < program.ties.size(); ++weight)
    for (uint32_t stage : program.ties[weight].stages)
      if (!ties.isLocal(weight) && copies.isOn(stage, device))
        shares.push_back({weight, stage});
  if (shares.empty())
    return;
  for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
    const Op &op = program.ops[id];
    if (op.isWait())
      continue;
    if (op.kind == OpKind::ReduceTied)
      reduceTied(id);
    const bool contributes = op.contributes();
    if (!contributes && op.kind != OpKind::Reduce && op.kind != OpKind::Update && op.kind != OpKind::Zero)
      continue;
    for (Share &share : shares) {
      if (share.stage != op.stage)
        continue;
      if (op.kind == OpKind::Zero || op.overwrites())
        share = {share.weight, share.stage};
      if (contributes) {
        ++share.pending;
        if (share.leavingOut == noOp)
          share.leavingOut = share.tied;
      } else if (op.kind == OpKind::Update) {
        update(share, id);
      } else if (op.kind == OpKind::Reduce && !terms.isIdentity(copies.count(op.stage))) {
        if (share.tied != noOp && share.reduction == noOp)
          behind[share.weight].push_back(
              {Rule::ReducedTwice, besideTied, device, share.stage, noMicrobatch, id, noOp});
        share.reduction = id;
      }
    }
  }
  for (const Share &share : shares)
    if (share.leavingOut != noOp)
      faults.push_back(fault(Rule::ContributionAfterReduce, share, share.leavingOut));
}

/// The sum holds what one member has reduced already, and another member's reduction adds all of it once
/// more.
void TiedWalk::finish() {
  for (uint32_t weight = 0; weight < before.size(); ++weight)
    if (before[weight] != noOp && !costs.isSharded && !costs.reductionIsMean)
      for (Fault &late : behind[weight]) {
        late.other = before[weight];
        faults.push_back(late);
      }
}

void findTiedFaults(const Program &program, const CostModel &costs, const Copies &copies, const Ties &ties,
                    const GradientTerms &terms, std::vector<Fault> &faults, std::vector<Fault> &later) {
  if (!ties.any())
    return;
  TiedWalk walk(program, costs, copies, ties, terms, faults, later);
  for (uint32_t device = 0; device < program.devices; ++device)
    walk.walk(device);
  walk.finish();
}

static std::vector<uint32_t> otherMembers(const TiedWeight &weight, uint32_t stage) {
  std::vector<uint32_t> others;
  for (uint32_t member : weight.stages)
    if (member != stage)
      others.push_back(member);
  return others;
}

/// The weight of a fault: a cause has room for a part of its number.
static uint32_t weightOf(const VerifyContext &context, const Fault &fault) {
  uint32_t weight = fault.cause;
  while (!llvm::is_contained(context.program.ties[weight].stages, fault.stage))
    weight += 256;
  return weight;
}

static void reportMissing(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  const uint32_t number = weightOf(context, first);
  const TiedWeight &weight = context.program.ties[number];
  std::vector<uint32_t> others = otherMembers(weight, first.stage);
  // Copies of the one stage that has the weight: their shares are what lacks.
  std::string lacking = others.empty() ? "its copies" : listed("stage", "stages", others);
  Finding &finding = report(
      context, group, {{"update", opText(context, first.op)}, {"stages", lacking}, {"weight", weight.name}});
  if (first.other != noOp)
    noteOp(context, finding, first.other, opText(context, first.other) + " stands behind the update");
  finding.notes.push_back({"the weight is tied here", weight.span, {}, ""});
  noteOthers(context, group, false, finding);
  const std::vector<uint32_t> devices = context.program.membersOf({OpKind::ReduceTied, 0, 0, number});
  finding.fix.message = fmt::format("reduce_tied({}) in front of the update, on {}", weight.name,
                                    listed("device", "devices", devices));
}

static void reportAfterShard(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  Finding &finding = report(context, group,
                            {{"op", opText(context, first.op)},
                             {"reduce", opText(context, first.other)},
                             {"where", atLine(context, first.other, first.op)}});
  noteOp(context, finding, first.other,
         opText(context, first.other) + " leaves a shard of its own of each stage here");
  if (auto declared = context.costs.declaredAt.find("reduced"); declared != context.costs.declaredAt.end())
    finding.notes.push_back({"gradients are sharded here", declared->second, {}, ""});
  noteOthers(context, group, false, finding);
  finding.fix.message =
      fmt::format("swap them: {} in front of {}", opText(context, first.op), opText(context, first.other));
}

void reportTiedFaults(VerifyContext &context, std::vector<Fault> faults) {
  static constexpr Rule orderOfBlame[] = {Rule::MissingTiedReduce, Rule::TiedAfterShard};
  keepFirstCauses(context, Scope::Copy, orderOfBlame, faults);
  for (const FaultGroup &group : groupByLine(context, faults))
    group.front().rule == Rule::MissingTiedReduce ? reportMissing(context, group)
                                                  : reportAfterShard(context, group);
  blame(context, faults);
}

} // namespace sluice
