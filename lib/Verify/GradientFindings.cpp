// 501, 502, 503, 505, 506 and 514 in words.
#include "Verify/Gradients.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

static constexpr Rule orderOfBlame[] = {
    Rule::MissingUpdate,           Rule::EmptyUpdate,  Rule::UpdateBeforeContribution,
    Rule::ContributionAfterReduce, Rule::ReducedTwice, Rule::MissingReduce};

static bool contributes(const Op &op) {
  return op.kind == OpKind::Backward || op.kind == OpKind::BackwardWeight;
}

static OpId endOf(const VerifyContext &context, const Fault &fault) {
  return context.program.deviceBegin[fault.device + 1];
}

/// Contributions to the fault's stage among the ops [begin, end) of its device.
static std::vector<OpId> contributionsIn(const VerifyContext &context, const Fault &fault, OpId begin,
                                         OpId end) {
  std::vector<OpId> found;
  for (OpId id = begin; id < end; ++id)
    if (const Op &op = context.program.ops[id]; op.stage == fault.stage && contributes(op))
      found.push_back(id);
  return found;
}

/// The first op of `kind` for the fault's stage from `begin` on; the end of its device if there is none.
static OpId firstFrom(const VerifyContext &context, const Fault &fault, OpId begin, OpKind kind) {
  OpId id = begin;
  while (id < endOf(context, fault) &&
         !(context.program.ops[id].kind == kind && context.program.ops[id].stage == fault.stage))
    ++id;
  return id;
}

static std::string contributionCount(size_t count) { return counted(count, "contribution", "contributions"); }

static std::string reduceOf(uint32_t stage) {
  return str(Op{OpKind::Reduce, 0, static_cast<uint16_t>(stage), noMicrobatch});
}

static void reportMissingReduce(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  const GradientTerms terms(context.program, context.costs);
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

static void reportReducedTwice(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  const uint32_t copies = context.copies.count(first.stage);
  std::string factor = copies > 1 ? fmt::format("{} times the replicas", copies) : "the number of replicas";
  if (std::optional<int64_t> members = GradientTerms(context.program, context.costs).members(copies))
    factor = fmt::format("{}", *members);
  Finding &finding = report(context, group,
                            {{"reduce", opText(context, first.op)},
                             {"first", opText(context, first.other)},
                             {"where", atLine(context, first.other, first.op)},
                             {"factor", factor}});
  noteOp(context, finding, first.other, opText(context, first.other) + " has added the members here");
  noteOthers(context, group, false, finding);
  finding.fix.message = "keep only the last of the two";
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
  default:
    return reportEmptyUpdate(context, group);
  }
}

void verifyGradients(VerifyContext &context) {
  std::vector<Fault> faults = findGradientFaults(context.program, context.costs, context.copies);
  keepFirstCauses(context, Scope::Copy, orderOfBlame, faults);
  for (const FaultGroup &group : groupByLine(context, faults))
    reportGroup(context, group);
  blame(context, faults);
}

} // namespace sluice
