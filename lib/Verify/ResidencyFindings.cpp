// 605 stale-weights, 606 weights-not-resident and 607 residency-unchanged in words.
#include "Verify/Residency.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

static std::string ofStep(const WeightLack &lack) { return lack.isOfStepBefore ? " of the step before" : ""; }

static std::string unshardOf(const Fault &fault) {
  return str(Op{OpKind::Unshard, 0, static_cast<uint16_t>(fault.stage)});
}

static const WeightLack &lackOf(const ResidencyWalk &walk, const Fault &fault) {
  return *llvm::find_if(walk.lacks, [&](const WeightLack &lack) { return lack.fault.op == fault.op; });
}

/// Ops of the same copy that lack the same.
static void noteAlso(const VerifyContext &context, const WeightLack &lack, Finding &finding) {
  if (!lack.also.empty())
    finding.notes.push_back({"so do " + opList(context, lack.also), {}, {}, ""});
}

static void reportStale(VerifyContext &context, const FaultGroup &group, const WeightLack &lack) {
  const Fault &first = group.front();
  const std::string update = opText(context, first.other);
  Finding &finding = report(context, group,
                            {{"op", opText(context, first.op)},
                             {"version", fmt::format("{}", lack.version)},
                             {"stage", fmt::format("{}", first.stage)},
                             {"update", update + ofStep(lack)},
                             {"newest", fmt::format("{}", lack.newest)}});
  noteOp(context, finding, first.other, fmt::format("{} makes version {} here", update, lack.newest));
  noteAlso(context, lack, finding);
  noteOthers(context, group, false, finding);
  finding.fix.message = unshardOf(first) + " before it";
}

static std::string sinceWhen(const VerifyContext &context, const Fault &fault, const WeightLack &lack) {
  if (fault.cause == NeverGathered)
    return "since the start";
  const Program &program = context.program;
  const std::string by = opText(context, fault.other);
  const std::string line = lineText(context, program.spanOf(fault.other), program.spanOf(fault.op));
  if (fault.cause == StillComing)
    return fmt::format("until the wait for {}{}{}", by, line.empty() ? "" : " at " + line, ofStep(lack));
  return "since " + (line.empty() ? by : line) + ofStep(lack);
}

static void reportAbsent(VerifyContext &context, const FaultGroup &group, const WeightLack &lack) {
  const Fault &first = group.front();
  Finding &finding = report(context, group,
                            {{"op", opText(context, first.op)},
                             {"stage", fmt::format("{}", first.stage)},
                             {"since", sinceWhen(context, first, lack)}});
  if (first.cause == StillComing)
    noteOp(context, finding, first.other, "they are on their way from here on");
  else if (first.cause == Dropped && context.program.ops[first.other].kind == OpKind::Reduce)
    noteOp(context, finding, first.other,
           fmt::format("{} drops them, as `after_reduce = resharded` says", opText(context, first.other)));
  else if (first.cause == Dropped)
    noteOp(context, finding, first.other, fmt::format("{} drops them", opText(context, first.other)));
  noteAlso(context, lack, finding);
  noteOthers(context, group, false, finding);
  finding.fix.message = first.cause == StillComing ? fmt::format("`wait {}` before it", unshardOf(first))
                                                   : unshardOf(first) + " before it";
}

static const char *stateOf(const Fault &fault) {
  switch (static_cast<NoChange>(fault.cause)) {
  case IsFresh:
    return "present and fresh";
  case IsComing:
    return "on its way already";
  case IsAbsent:
    return "absent";
  case IsAlwaysThere:
    return "always present, since nothing unshards it";
  }
  return "";
}

static void reportUnchanged(VerifyContext &context, const FaultGroup &group, const ResidencyWalk &walk) {
  const Fault &first = group.front();
  Finding &finding = report(context, group,
                            {{"op", opText(context, first.op)},
                             {"stage", fmt::format("{}", first.stage)},
                             {"state", stateOf(first)}});
  if (first.other != noOp && first.other != first.op)
    noteOp(context, finding, first.other,
           fmt::format("{} since {} here", first.cause == IsAbsent ? "absent" : "gathered",
                       opText(context, first.other)));
  const auto more = llvm::count_if(walk.idle, [&](const Fault &fault) {
    return fault.device == first.device && fault.stage == first.stage && fault.op != first.op;
  });
  if (more > 0)
    finding.notes.push_back({fmt::format("{} of this stage on this device {} nothing either",
                                         counted(static_cast<uint64_t>(more), "other op", "other ops"),
                                         more == 1 ? "changes" : "change"),
                             {},
                             {},
                             ""});
  noteOthers(context, group, false, finding);
  finding.fix.message = first.cause == IsAlwaysThere
                            ? fmt::format("delete it, or {} before the weights are used", unshardOf(first))
                            : "delete it";
}

void verifyResidency(VerifyContext &context) {
  if (!(context.kinds & (kindBit(OpKind::Unshard) | kindBit(OpKind::Reshard))))
    return;
  const ResidencyWalk walk = walkResidency(context);
  std::vector<Fault> faults = walk.idle;
  for (const WeightLack &lack : walk.lacks)
    faults.push_back(lack.fault);
  keepFirstCauses(context, Scope::Copy, {}, faults);
  for (const FaultGroup &group : groupByLine(context, faults)) {
    const Fault &first = group.front();
    if (first.rule == Rule::StaleWeights)
      reportStale(context, group, lackOf(walk, first));
    else if (first.rule == Rule::WeightsNotResident)
      reportAbsent(context, group, lackOf(walk, first));
    else
      reportUnchanged(context, group, walk);
  }
  blame(context, faults);
}

} // namespace sluice
