// What `phase = evaluation` forbids: 812 training-op-in-evaluation, and activations that nothing frees since
// no backward comes (702 memory-grows).
#include "Support/Quantity.h"
#include "Verify/Faults.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>
#include <utility>

namespace sluice {

/// What an evaluation does: forwards, and what moves activations and weights about.
static bool isForEvaluation(const Op &op) {
  switch (op.kind) {
  case OpKind::Forward:
  case OpKind::Drop:
  case OpKind::Offload:
  case OpKind::Reload:
  case OpKind::SendActivation:
  case OpKind::RecvActivation:
  case OpKind::Unshard:
  case OpKind::Reshard:
    return true;
  default:
    return false;
  }
}

/// Notes of the other statements that train: their words once each, with their lines.
static void noteTraining(const VerifyContext &context, const std::vector<Fault> &all, Finding &finding) {
  constexpr size_t most = 4;
  std::vector<std::string> statements;
  uint32_t site = ~0u;
  for (const Fault &fault : all) {
    if (!context.program.siteOf.empty() &&
        std::exchange(site, context.program.siteOf[fault.op]) == context.program.siteOf[fault.op])
      continue;
    const OpKind kind = context.program.ops[fault.op].kind;
    const Span span = context.program.spanOf(fault.op);
    const std::string line = lineText(context, span, finding.span);
    const std::string statement = name(kind).str() + (line.empty() ? "" : " at " + line);
    if (!(span == finding.span) && !llvm::is_contained(statements, statement))
      statements.push_back(statement);
    if (statements.size() > most)
      break;
  }
  if (statements.empty())
    return;
  if (statements.size() > most)
    statements.back() = "...";
  finding.notes.push_back({"others that train: " + llvm::join(statements, ", "), {}, {}, ""});
}

void verifyPhase(VerifyContext &context) {
  const Program &program = context.program;
  if (!program.isEvaluation)
    return;
  std::vector<Fault> all;
  for (uint32_t device = 0; device < program.devices; ++device)
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id)
      if (const Op &op = program.ops[id]; !isForEvaluation(op))
        all.push_back({Rule::TrainingOpInEvaluation, 0, device, op.stage,
                       op.hasMicrobatch() ? op.microbatch : noMicrobatch, id, noOp});
  std::vector<Fault> firsts = all;
  keepFirstCauses(context, Scope::Copy, {}, firsts);
  bool isFirst = true;
  for (const FaultGroup &group : groupByLine(context, firsts)) {
    Finding &finding = report(context, group, {{"op", opText(context, group.front().op)}});
    finding.notes.push_back({"the schedule says `phase = evaluation` here", program.phaseSpan, {}, ""});
    noteOthers(context, group, false, finding);
    if (std::exchange(isFirst, false))
      noteTraining(context, all, finding);
    finding.fix.message = "delete it, or `phase = training` if the schedule is to train";
  }
  blame(context, all);
}

/// Bytes of what a pair keeps; 0 where the file gives no size.
static int64_t bytesOf(const CostModel &costs, const KeptPair &kept) {
  const StageTable<int64_t> &sizes = kept.isInput ? costs.keptInput : costs.activation;
  return sizes.empty() ? 0 : sizes.at(kept.stage, kept.microbatch);
}

static std::string sizeText(const CostModel &costs, const KeptPair &kept) {
  const int64_t bytes = bytesOf(costs, kept);
  if (bytes > 0)
    return formatSize(bytes) + (kept.isOnHost ? " of host memory" : "");
  return kept.isOnHost ? "an activation in host memory" : kept.isInput ? "a stage input" : "an activation";
}

void verifyKept(VerifyContext &context) {
  const Program &program = context.program;
  std::vector<Fault> faults;
  for (const KeptPair &kept : context.keptPairs)
    faults.push_back({Rule::MemoryGrows, static_cast<uint8_t>(kept.isInput + 2 * kept.isOnHost),
                      program.deviceOf(kept.stage, kept.microbatch), kept.stage, kept.microbatch,
                      context.index.forward(kept.stage, kept.microbatch), noOp});
  keepFirstCauses(context, Scope::Pair, {}, faults);
  for (const FaultGroup &group : groupByLine(context, faults)) {
    const Fault &first = group.front();
    const KeptPair kept{first.stage, first.microbatch, (first.cause & 1) != 0, (first.cause & 2) != 0};
    const std::string op = opText(context, first.op);
    Finding &finding = report(
        context, group,
        {{"op", op}, {"size", sizeText(context.costs, kept)}, {"device", fmt::format("{}", first.device)}});
    finding.notes.push_back({"no backward comes in an evaluation", program.phaseSpan, {}, ""});
    noteOthers(context, group, false, finding);
    const std::string drop = str(Op{OpKind::Drop, 0, static_cast<uint16_t>(first.stage), first.microbatch});
    finding.fix.message = kept.isOnHost ? drop + " behind its offload"
                                        : fmt::format("{} keep nothing, or {} behind it", op, drop);
  }
  blame(context, faults);
}

} // namespace sluice
