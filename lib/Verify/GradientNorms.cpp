// 512 norm-misplaced and 513 norm-not-global: where the norm stands by which updates are clipped or skipped,
// and whose gradients it sees.
#include "Verify/Gradients.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

namespace {

/// Fault::cause of 512: what stands on the wrong side of the norm.
enum Misplaced : uint8_t { BehindUpdate, BeforeReduction, BeforeContribution };

class NormWalk {
public:
  NormWalk(const Program &program, const CostModel &costs, const Copies &copies, const GradientTerms &terms,
           std::vector<Fault> &faults)
      : program(program), copies(copies), terms(terms), faults(faults),
        seesShards(costs.isSharded && costs.replicas.value_or(2) > 1), updated(program.stages) {}
  void walk(uint32_t device);

private:
  void norm(OpId id);
  void update(OpId id);
  void reduction(OpId id);
  void close();

  const Program &program;
  const Copies &copies;
  const GradientTerms &terms;
  std::vector<Fault> &faults;
  const bool seesShards; // a norm of this device alone sees a part of each gradient
  uint32_t device = 0;
  std::vector<uint64_t> updated; // per stage: behind its last update on this device, as id + 1; 0: none
  OpId open = noOp;              // the last norm with no reduction behind it yet
  OpId contribution = noOp;      // the last contribution behind it
  OpId local = noOp;             // the last norm of this device alone
  OpId firstUpdate = noOp;
  bool seesAll = false;
};

} // namespace

void NormWalk::norm(OpId id) {
  if (firstUpdate != noOp && !terms.isAsynchronous)
    faults.push_back({Rule::NormMisplaced, BehindUpdate, device, program.ops[firstUpdate].stage, noMicrobatch,
                      id, firstUpdate});
  close();
  open = id;
  if (program.ops[id].has(Local))
    local = id;
}

/// The norm at hand sees no later reduction: it stands right, or before contributions.
void NormWalk::close() {
  if (open != noOp && contribution != noOp && !terms.isAsynchronous)
    faults.push_back({Rule::NormMisplaced, BeforeContribution, device, program.ops[contribution].stage,
                      noMicrobatch, open, contribution});
  open = contribution = noOp;
}

void NormWalk::reduction(OpId id) {
  const Op &op = program.ops[id];
  if (op.isWait() || (op.kind == OpKind::Reduce && terms.isIdentity(copies.count(op.stage))))
    return;
  if (open == noOp)
    return;
  faults.push_back({Rule::NormMisplaced, BeforeReduction, device, op.stage, noMicrobatch, open, id});
  open = contribution = noOp;
}

void NormWalk::update(OpId id) {
  const uint32_t stage = program.ops[id].stage;
  if (firstUpdate == noOp)
    firstUpdate = id;
  if (local != noOp && updated[stage] <= local && (!seesAll || seesShards))
    faults.push_back({Rule::NormNotGlobal, 0, device, stage, noMicrobatch, id, local});
  updated[stage] = id + 1ull;
  // Between the updates of an asynchronous program reductions belong to the next norm.
  if (terms.isAsynchronous)
    open = noOp;
}

void NormWalk::walk(uint32_t onDevice) {
  device = onDevice;
  updated.assign(program.stages, 0);
  open = contribution = local = firstUpdate = noOp;
  seesAll = program.stagesOn(device).size() == program.stages;
  for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
    const Op &op = program.ops[id];
    if (op.kind == OpKind::Norm)
      norm(id);
    else if (op.kind == OpKind::Reduce || op.kind == OpKind::ReduceTied)
      reduction(id);
    else if (op.kind == OpKind::Update)
      update(id);
    else if (op.contributes() && open != noOp)
      contribution = id;
  }
  close();
}

void findNormFaults(const Program &program, const CostModel &costs, const Copies &copies,
                    const GradientTerms &terms, std::vector<Fault> &faults) {
  NormWalk walk(program, costs, copies, terms, faults);
  for (uint32_t device = 0; device < program.devices; ++device)
    walk.walk(device);
}

static std::vector<uint32_t> allStages(const Program &program) {
  std::vector<uint32_t> stages(program.stages);
  for (uint32_t s = 0; s < program.stages; ++s)
    stages[s] = s;
  return stages;
}

static void reportMisplaced(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  const std::string other = opText(context, first.other);
  std::string where = fmt::format("{} {}{}", first.cause == BehindUpdate ? "behind" : "before", other,
                                  atLine(context, first.other, first.op));
  Finding &finding = report(context, group, {{"norm", opText(context, first.op)}, {"where", where}});
  noteOp(context, finding, first.other,
         other + (first.cause == BehindUpdate ? " has changed weights here, with no norm before it"
                                              : " changes the gradient that the norm has seen"));
  noteOthers(context, group, false, finding);
  finding.fix.message = "after all reductions, before all updates of its device";
}

static void reportNotGlobal(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  const std::vector<uint32_t> here = context.program.stagesOn(first.device);
  const bool isPart = here.size() < context.program.stages;
  Finding &finding = report(context, group,
                            {{"update", opText(context, first.op)},
                             {"norm", opText(context, first.other)},
                             {"stages", (isPart ? "" : "a shard ") + std::string(isPart ? "" : "of each ") +
                                            (isPart ? listed("stage", "stages", here) : "stage")},
                             {"all", listed("stage", "stages", allStages(context.program))}});
  noteOp(context, finding, first.other,
         opText(context, first.other) + " agrees with no other device: one may clip or skip alone");
  noteOthers(context, group, false, finding);
  finding.fix.message = "norm; on every device";
}

void reportNormFault(VerifyContext &context, const FaultGroup &group) {
  group.front().rule == Rule::NormMisplaced ? reportMisplaced(context, group)
                                            : reportNotGlobal(context, group);
}

} // namespace sluice
