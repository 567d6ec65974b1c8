// The rules of 5xx in words, one cause a copy of a stage, and the order of blame among them.
#include "Verify/Factors.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

static constexpr Rule orderOfBlame[] = {Rule::MissingUpdate,           Rule::EmptyUpdate,
                                        Rule::ContributionLost,        Rule::GradientNotCleared,
                                        Rule::GradientInFlight,        Rule::UpdateBeforeContribution,
                                        Rule::ContributionAfterReduce, Rule::ReducedTwice,
                                        Rule::MissingReduce,           Rule::WrongFactor,
                                        Rule::NormMisplaced,           Rule::NormNotGlobal};

static OpId endOf(const VerifyContext &context, const Fault &fault) {
  return context.program.deviceBegin[fault.device + 1];
}

/// Contributions to the fault's stage among the ops [begin, end) of its device.
static std::vector<OpId> contributionsIn(const VerifyContext &context, const Fault &fault, OpId begin,
                                         OpId end) {
  const Ties ties(context.program, context.copies);
  std::vector<OpId> found;
  for (OpId id = begin; id < end; ++id)
    if (const Op &op = context.program.ops[id]; op.contributes() && ties.adds(op.stage, fault.stage))
      found.push_back(id);
  return found;
}

/// The first op of `kind` for the fault's stage from `begin` on; the end of its device if there is none.
static OpId firstFrom(const VerifyContext &context, const Fault &fault, OpId begin, OpKind kind) {
  OpId id = begin;
  while (id < endOf(context, fault) &&
         !(context.program.ops[id].kind == kind && context.program.ops[id].stage == fault.stage &&
           !context.program.ops[id].isWait()))
    ++id;
  return id;
}

static std::string contributionCount(size_t count) { return counted(count, "contribution", "contributions"); }

static std::string reduceOf(uint32_t stage) {
  return str(Op{OpKind::Reduce, 0, static_cast<uint16_t>(stage), noMicrobatch});
}

static void reportMissingReduce(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  const GradientTerms terms(context.program, context.kinds, context.costs);
  const uint32_t copies = context.copies.count(first.stage);
  std::string members = copies > 1 ? counted(copies, "copy", "copies") : "all replicas";
  if (std::optional<int64_t> count = terms.members(copies))
    members = fmt::format("{} members", *count);
  const OpId behind = firstFrom(context, first, first.op, OpKind::Reduce);
  std::string reduced = "nothing reduces";
  const bool isBehind = behind != endOf(context, first);
  if (isBehind) {
    std::string line = lineText(context, context.program.spanOf(behind), context.program.spanOf(first.op));
    reduced = fmt::format("only {} reduces", line.empty() ? reduceOf(first.stage) + " behind it" : line);
  }
  Finding &finding = report(
      context, group, {{"update", opText(context, first.op)}, {"members", members}, {"reduced", reduced}});
  if (isBehind)
    noteOp(context, finding, behind, opText(context, behind) + " stands behind the update");
  noteOthers(context, group, false, finding);
  const OpId last =
      contributionsIn(context, first, context.program.deviceBegin[first.device], first.op).back();
  finding.fix.message =
      fmt::format("{} behind {}, the last contribution", reduceOf(first.stage), opText(context, last));
}

static void reportContributionAfterReduce(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  const std::vector<OpId> left =
      contributionsIn(context, first, first.op, firstFrom(context, first, first.op, OpKind::Update));
  Finding &finding = report(context, group,
                            {{"reduce", opText(context, first.op)},
                             {"contributions", contributionCount(left.size())},
                             {"ops", opList(context, left)}});
  noteOp(context, finding, left.back(), opText(context, left.back()) + " is the last contribution");
  noteOthers(context, group, false, finding);
  finding.fix.message =
      fmt::format("move it behind {}, the last in program order", opText(context, left.back()));
}

/// How many accumulators a reduction of a tied weight adds: the copies of all its stages.
static size_t sharesOf(const VerifyContext &context, const Op &op) {
  size_t shares = 0;
  for (uint32_t stage : context.program.ties[op.microbatch].stages)
    shares += context.copies.count(stage);
  return shares;
}

static void reportReducedTwice(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  const uint32_t copies = context.copies.count(first.stage);
  const GradientTerms terms(context.program, context.kinds, context.costs);
  std::string factor = copies > 1 ? fmt::format("{} times the replicas", copies) : "the number of replicas";
  if (context.program.ops[first.op].kind == OpKind::ReduceTied)
    factor = fmt::format("{}", sharesOf(context, context.program.ops[first.op]));
  else if (terms.isMean)
    factor = fmt::format("{}", copies); // what copies add is divided by the replicas alone
  else if (std::optional<int64_t> members = terms.members(copies))
    factor = fmt::format("{}", *members);
  Finding &finding = report(context, group,
                            {{"reduce", opText(context, first.op)},
                             {"first", opText(context, first.other)},
                             {"where", atLine(context, first.other, first.op)},
                             {"factor", factor}});
  noteOp(context, finding, first.other, opText(context, first.other) + " has added the members here");
  noteOthers(context, group, false, finding);
  finding.fix.message =
      first.cause == besideTied
          ? "put the reductions of all stages that share the weight on one side of reduce_tied"
          : "keep only the last of the two";
  // A mean of equal values is the same value: the second reduction is only slow.
  if (first.cause == harmlessRepeat && context.program.ops[first.op].kind == OpKind::Reduce)
    finding.severity = std::min(finding.severity, Severity::Warning);
}

/// `, though stages 0, 1 update`, or what else shows that this stage was forgotten.
static std::string otherUpdates(const VerifyContext &context, const Fault &fault) {
  std::vector<uint32_t> stages, devices;
  for (uint32_t device = 0; device < context.program.devices; ++device)
    for (const Op &op : context.program.opsOf(device)) {
      if (op.kind != OpKind::Update)
        continue;
      if (op.stage != fault.stage)
        stages.push_back(op.stage);
      else
        devices.push_back(device);
    }
  // An asynchronous program: this copy updates, but not after its last contributions.
  if (llvm::is_contained(devices, fault.device))
    return " behind them";
  if (stages.empty())
    return fmt::format(", though its {} {}", listed("copy on device", "copies on devices", devices),
                       devices.size() == 1 ? "updates" : "update");
  llvm::sort(stages);
  stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
  return fmt::format(", though {} {}", listed("stage", "stages", stages),
                     stages.size() == 1 ? "updates" : "update");
}

static void reportMissingUpdate(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  OpId begin = context.program.deviceBegin[first.device];
  while (firstFrom(context, first, begin, OpKind::Update) != endOf(context, first))
    begin = firstFrom(context, first, begin, OpKind::Update) + 1;
  const size_t count = contributionsIn(context, first, begin, endOf(context, first)).size();
  Finding &finding = report(context, group,
                            {{"stage", fmt::format("{}", first.stage)},
                             {"contributions", contributionCount(count)},
                             {"others", otherUpdates(context, first)}});
  const std::string last = opText(context, first.other);
  noteOp(context, finding, first.other, last + " is the last contribution");
  noteOthers(context, group, false, finding);
  finding.fix.message = fmt::format("update({}) behind {} on device {}", first.stage, last, first.device);
}

static void reportUpdateBeforeContribution(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  const std::vector<OpId> late = contributionsIn(context, first, first.op, endOf(context, first));
  Finding &finding = report(context, group,
                            {{"update", opText(context, first.op)},
                             {"contributions", contributionCount(late.size())},
                             {"ops", opList(context, late)}});
  const std::string last = opText(context, first.other);
  noteOp(context, finding, first.other, last + " is the last contribution");
  noteOthers(context, group, false, finding);
  finding.fix.message =
      fmt::format("move it behind {}, or declare `semantics = asynchronous(staleness <= k)`", last);
}

static void reportEmptyUpdate(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  const std::vector<OpId> late = contributionsIn(context, first, first.op, endOf(context, first));
  const bool isLast = firstFrom(context, first, first.op + 1, OpKind::Update) == endOf(context, first);
  std::string reason = late.empty() ? "none was made" : "none was made before it";
  if (first.other != noOp)
    reason =
        fmt::format("{}{} used them", opText(context, first.other), atLine(context, first.other, first.op));
  Finding &finding = report(context, group, {{"update", opText(context, first.op)}, {"reason", reason}});
  if (first.other != noOp)
    noteOp(context, finding, first.other, opText(context, first.other) + " has used all there was");
  noteOthers(context, group, false, finding);
  // The last update, in front of contributions, is meant for them; any other is one too many.
  finding.fix.message = late.empty() || !isLast ? "delete it"
                                                : fmt::format("move it behind {}, the last contribution",
                                                              opText(context, late.back()));
}

static void reportContributionLost(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  // What has gathered since the last update or zero before it.
  const OpId deviceBegin = context.program.deviceBegin[first.device];
  OpId begin = first.op;
  while (begin > deviceBegin) {
    const Op &op = context.program.ops[begin - 1];
    if ((op.kind == OpKind::Update || op.kind == OpKind::Zero) && op.stage == first.stage)
      break;
    --begin;
    if (op.overwrites() && op.stage == first.stage)
      break;
  }
  const std::vector<OpId> lost = contributionsIn(context, first, begin, first.op);
  Finding &finding =
      report(context, group, {{"op", opText(context, first.op)}, {"ops", opList(context, lost)}});
  noteOp(context, finding, lost.front(), opText(context, lost.front()) + " is the first of them");
  noteOthers(context, group, false, finding);
  finding.fix.message =
      context.program.ops[first.op].kind == OpKind::Zero
          ? fmt::format("zero({}) before the first contribution", first.stage)
          : fmt::format("`overwrite` on the first contribution alone, {}", opText(context, lost.front()));
}

static void reportGradientNotCleared(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  Finding &finding =
      report(context, group, {{"op", opText(context, first.op)}, {"update", opText(context, first.other)}});
  noteOp(context, finding, first.other,
         opText(context, first.other) + " leaves what it has used, since the schedule empties by `zero`");
  noteOthers(context, group, false, finding);
  finding.fix.message = fmt::format("zero({}) in front of {}", first.stage, opText(context, first.op));
}

static void reportGradientInFlight(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  const Program &program = context.program;
  const std::string start = str(program, first.other);
  Finding &finding =
      report(context, group,
             {{"op", str(program, first.op)}, {"stage", fmt::format("{}", first.stage)}, {"start", start}});
  noteOp(context, finding, first.other, start + " is still at it");
  noteOthers(context, group, false, finding);
  finding.fix.message = fmt::format(
      "wait {} before it", llvm::StringRef(start).drop_front(llvm::StringRef("start ").size()).str());
}

static void reportGroup(VerifyContext &context, const FaultGroup &group) {
  switch (group.front().rule) {
  case Rule::MissingReduce:
    return reportMissingReduce(context, group);
  case Rule::ContributionAfterReduce:
    return reportContributionAfterReduce(context, group);
  case Rule::ReducedTwice:
    return reportReducedTwice(context, group);
  case Rule::MissingUpdate:
    return reportMissingUpdate(context, group);
  case Rule::UpdateBeforeContribution:
    return reportUpdateBeforeContribution(context, group);
  case Rule::ContributionLost:
    return reportContributionLost(context, group);
  case Rule::GradientNotCleared:
    return reportGradientNotCleared(context, group);
  case Rule::GradientInFlight:
    return reportGradientInFlight(context, group);
  case Rule::NormMisplaced:
  case Rule::NormNotGlobal:
    return reportNormFault(context, group);
  default:
    return reportEmptyUpdate(context, group);
  }
}

/// The first wrong factor of each copy becomes a fault beside the others.
static std::vector<FactorFault> findFactorFaults(VerifyContext &context, FactorCheck &check,
                                                 std::vector<Fault> &faults) {
  std::vector<FactorFault> factors = check.run();
  if (!factors.empty() && factors.front().kind == FactorFault::Uneven) {
    reportUnevenScale(context, factors.front());
    return {};
  }
  llvm::DenseSet<uint64_t> seen;
  // Where a factor is known the finding can say more: those that overflow come last.
  for (bool overflows : {false, true})
    for (const FactorFault &factor : factors)
      if ((factor.kind == FactorFault::Overflow) == overflows &&
          seen.insert(VerifyContext::copy(factor.device, factor.stage)).second)
        faults.push_back({Rule::WrongFactor, 0, factor.device, factor.stage, noMicrobatch, factor.op, noOp});
  return factors;
}

void verifyGradients(VerifyContext &context) {
  const Program &program = context.program;
  const CostModel &costs = context.costs;
  if (program.isEvaluation)
    return;
  const bool takesMeans = verifyLossTerms(context);
  const Ties ties(program, context.copies);
  const GradientTerms terms(program, context.kinds, costs);
  std::vector<Fault> faults = findGradientFaults(program, context.copies, ties, terms), tied;
  findTiedFaults(program, costs, context.copies, ties, terms, faults, tied);
  if (context.kinds & kindBit(OpKind::Norm))
    findNormFaults(program, costs, context.copies, terms, faults);
  std::optional<FactorCheck> check;
  std::vector<FactorFault> factors;
  if (takesMeans && terms.hasUpdates && !context.hasMisplacedOps && hasFactors(program, costs)) {
    check.emplace(context, ties);
    factors = findFactorFaults(context, *check, faults);
  }
  if (faults.empty() && tied.empty())
    return;
  // What is only slow hides no error, and explains none.
  std::vector<Fault> slow;
  for (const Fault &fault : faults)
    if (fault.rule == Rule::ReducedTwice && fault.cause == harmlessRepeat &&
        program.ops[fault.op].kind == OpKind::Reduce)
      slow.push_back(fault);
  llvm::erase_if(faults, [&](const Fault &fault) {
    return fault.rule == Rule::ReducedTwice && fault.cause == harmlessRepeat &&
           program.ops[fault.op].kind == OpKind::Reduce;
  });
  keepFirstCauses(context, Scope::Copy, orderOfBlame, faults);
  keepFirstCauses(context, Scope::Copy, orderOfBlame, slow);
  for (const FaultGroup &group : groupByLine(context, faults))
    if (group.front().rule == Rule::WrongFactor)
      reportWrongFactor(context, *check, factors, group);
    else
      reportGroup(context, group);
  for (const FaultGroup &group : groupByLine(context, slow))
    reportGroup(context, group);
  blame(context, faults);
  reportTiedFaults(context, std::move(tied));
}

} // namespace sluice
