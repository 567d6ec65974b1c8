// 201 to 211 in words: what the walk of Activations.cpp met, and pairs that end unfinished.
#include "Verify/ActivationWords.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

// 209 to 211 come last: they do not explain the others, and a warning never hides an error. Every rule of
// the family is listed.
static constexpr Rule orderOfBlame[] = {
    Rule::MissingForward,         Rule::DuplicateOp,           Rule::MissingInput,      Rule::MissingGradient,
    Rule::WeightHalfFirst,        Rule::RecomputeWithoutInput, Rule::MissingActivation, Rule::MissingBackward,
    Rule::OverlapDependsOnItself, Rule::TransferInFlight,      Rule::RecomputeRandom};

/// Pairs that have not run forward and backward by the end of the step; in an evaluation those without
/// forward, and into VerifyContext::keptPairs those that keep something.
static void addUnfinished(VerifyContext &context, ActivationWalk &walk) {
  const Program &program = context.program;
  const Activation finished = program.isEvaluation ? Activation::Gone : Activation::Done;
  for (uint32_t s = 0; s < program.stages; ++s)
    for (uint32_t m = 0; m < program.microbatches; ++m) {
      const PairState &state = walk.states[context.pair(s, m)];
      if ((state.activation == finished && state.forwardRan) || program.deviceOf(s, m) == noDevice)
        continue;
      const Activation left = state.activation;
      if (!state.forwardRan)
        walk.faults.push_back({Rule::MissingForward, 0, program.deviceOf(s, m), s, m, noOp, noOp});
      else if (program.isEvaluation && (left == Activation::Done || left == Activation::Half))
        continue; // its backward has its own finding
      else if (program.isEvaluation)
        context.keptPairs.push_back({s, m, left == Activation::Input, left >= Activation::Host});
      else if (left != Activation::Done)
        walk.faults.push_back(
            {Rule::MissingBackward, static_cast<uint8_t>(left), program.deviceOf(s, m), s, m,
             left == Activation::Half ? context.index.backward(s, m) : context.index.forward(s, m), noOp});
    }
}

/// The op on the same device that `fault` waits for; noOp if it is made nowhere or elsewhere.
static OpId lateProducer(const VerifyContext &context, const Fault &fault) {
  const Program &program = context.program;
  const uint32_t s = fault.stage, m = fault.microbatch;
  const bool isInput = fault.rule == Rule::MissingInput;
  auto onThisDevice = [&](uint32_t stage, uint32_t microbatch) {
    const OpId producer =
        isInput ? context.index.forward(stage, microbatch) : context.index.backward(stage, microbatch);
    return producer != noOp && program.deviceOf(producer) == fault.device ? producer : noOp;
  };
  if (fault.cause == ofSplit)
    return onThisDevice(s, isInput ? m - 1 : m + 1);
  if (fault.cause != ofSkip)
    return onThisDevice(isInput ? s - 1 : s + 1, m);
  for (const SkipEdge &skip : program.skips) {
    const bool isTaken = isInput ? skip.to == s : skip.from == s && skip.hasGradient;
    const OpId producer = isTaken ? onThisDevice(isInput ? skip.from : skip.to, m) : noOp;
    if (producer != noOp && producer > fault.op)
      return producer;
  }
  return noOp;
}

//===-- One function a rule ----------------------------------------------------------------------===//

static void reportMissingForward(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  Finding &finding =
      report(context, group,
             {{"stage", fmt::format("{}", first.stage)},
              {"microbatches", listed("microbatch", "microbatches", microbatchesOfFirst(group))}});
  OpId user = context.index.backward(first.stage, first.microbatch);
  if (user == noOp && first.stage + 1 < context.program.stages)
    user = context.index.forward(first.stage + 1, first.microbatch);
  if (user != noOp)
    noteOp(context, finding, user, opText(context, user) + " needs it");
  noteOthers(context, group, true, finding);
  finding.fix.message = fmt::format("add {} on device {}{}", opOf(OpKind::Forward, first), first.device,
                                    context.program.placeSpans.empty() ? "" : ", or shorten `place`");
}

static void reportMissingBackward(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  const bool isHalf = static_cast<Activation>(first.cause) == Activation::Half;
  const std::string missing = opOf(isHalf ? OpKind::BackwardWeight : OpKind::Backward, first);
  Finding &finding =
      report(context, group,
             {{"op", opText(context, first.op)},
              {"half", isHalf ? "weight half" : "backward"},
              {"stage", fmt::format("{}", first.stage)},
              {"microbatches", listed("microbatch", "microbatches", microbatchesOfFirst(group))}});
  finding.op = missing;
  noteOthers(context, group, true, finding);
  finding.fix.message = fmt::format("add {} behind it", missing);
  if (isHalf)
    finding.fix.message += ", or drain with `backward_weight(all)`";
}

static void reportDuplicateOp(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  const Op &op = context.program.ops[first.op];
  OpId earlier = lastBefore(context, first.op, [&](const Op &o) {
    if (op.makesGradient())
      return o.makesGradient();
    return (o.kind == op.kind && !o.isWait()) ||
           (op.kind == OpKind::BackwardWeight && o.kind == OpKind::Backward);
  });
  std::string where;
  if (earlier != noOp) {
    where = atLine(context, earlier, first.op);
  } else { // a recompute of what the forward has kept whole
    earlier = context.index.forward(first.stage, first.microbatch);
    where = fmt::format(" in effect: {} keeps the whole activation{}", opText(context, earlier),
                        atLine(context, earlier, first.op));
  }
  Finding &finding = report(context, group, {{"op", opText(context, first.op)}, {"where", where}});
  noteOp(context, finding, earlier, opText(context, earlier) + " stands here");
  noteOthers(context, group, false, finding);
  finding.fix.message = "delete one of the two";
}

static void reportLateProducer(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  const OpId producer = lateProducer(context, first);
  Finding &finding = report(context, group,
                            {{"op", opText(context, first.op)},
                             {"producer", opText(context, producer)},
                             {"where", atLine(context, producer, first.op)}});
  noteOp(context, finding, producer, opText(context, producer) + " stands only here");
  noteOthers(context, group, false, finding);
  finding.fix.message =
      fmt::format("move {} before {}", opText(context, producer), opText(context, first.op));
}

static void reportWeightHalfFirst(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  Finding &finding = report(context, group, {{"op", opText(context, first.op)}});
  if (OpId half = context.index.backward(first.stage, first.microbatch); half != noOp)
    noteOp(context, finding, half, opText(context, half) + " stands only here");
  noteOthers(context, group, false, finding);
  finding.fix.message = "`backward_weight(oldest)` takes the pending input halves in their own order";
}

static void reportRecomputeWithoutInput(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  const Loss loss = lossOf(context, first, "at");
  const OpId forward = context.index.forward(first.stage, first.microbatch);
  Finding &finding = report(
      context, group,
      {{"op", opText(context, first.op)}, {"forward", opOf(OpKind::Forward, first)}, {"state", loss.words}});
  if (loss.op != noOp)
    noteOp(context, finding, loss.op, loss.note);
  noteOthers(context, group, false, finding);
  if (static_cast<Activation>(first.cause) == Activation::None)
    finding.fix.message = fmt::format("move it behind {}", opOf(OpKind::Forward, first));
  else if (loss.op != noOp && loss.op == forward)
    finding.fix.message = fmt::format("{} keep input", opOf(OpKind::Forward, first));
  else if (static_cast<Activation>(first.cause) == Activation::Gone)
    finding.fix.message = fmt::format("{} keep input", opOf(OpKind::Drop, first));
  else if (static_cast<Activation>(first.cause) == Activation::Host)
    finding.fix.message = fmt::format("{} in its place", opOf(OpKind::Reload, first));
  else
    finding.fix.message = "delete it, or move it before the backward";
}

/// How the op of a fault can have its activation; `loser` made it unusable.
static std::string mendedActivation(const VerifyContext &context, const Fault &fault, OpId loser) {
  const Program &program = context.program;
  const OpKind kind = program.ops[fault.op].kind;
  const std::string recompute = opOf(OpKind::Recompute, fault);
  const std::string reload = opOf(OpKind::Reload, fault);
  const auto met = static_cast<Activation>(fault.cause);
  const bool isLate = met == Activation::Half || met == Activation::Done;
  if (met == Activation::None)
    return fmt::format("move it behind {}", opOf(OpKind::Forward, fault));
  if (met == Activation::Host)
    return kind == OpKind::Drop ? fmt::format("drop it whole, or {} before it", reload)
                                : fmt::format("{} before it", reload);
  if (kind == OpKind::Reload)
    return fmt::format("delete it, or {} before it", opOf(OpKind::Offload, fault));
  if (kind == OpKind::Drop || (isLate && kind == OpKind::Offload))
    return "delete it";
  if (met == Activation::Input)
    return fmt::format("{} before it", recompute);
  return fmt::format("{} keep input, and {} before it",
                     opOf(loser == noOp ? OpKind::Forward : program.ops[loser].kind, fault), recompute);
}

static void reportMissingActivation(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  const Loss loss = lossOf(context, first, "since");
  Finding &finding = report(context, group,
                            {{"op", opText(context, first.op)},
                             {"stage", fmt::format("{}", first.stage)},
                             {"microbatch", fmt::format("{}", first.microbatch)},
                             {"state", loss.words}});
  if (loss.op != noOp)
    noteOp(context, finding, loss.op, loss.note);
  noteOthers(context, group, false, finding);
  finding.fix.message = mendedActivation(context, first, loss.op);
}

/// `other`: the end of the transfer, if it stands too late.
static void reportTransferInFlight(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  const Program &program = context.program;
  const Loss loss = lossOf(context, first, "since");
  const bool isLeaving = static_cast<Activation>(first.cause) == Activation::Leaving;
  const std::string transfer = opOf(isLeaving ? OpKind::Offload : OpKind::Reload, first);
  Finding &finding =
      report(context, group, {{"op", opText(context, first.op)}, {"transfer", "start " + transfer}});
  if (loss.op != noOp)
    noteOp(context, finding, loss.op, loss.note);
  const Op &used = program.ops[first.op];
  OpId wait = first.op;
  auto isWaitFor = [&](const Op &op) {
    return op.kind == (isLeaving ? OpKind::Offload : OpKind::Reload) && op.isWait() &&
           op.stage == used.stage && op.microbatch == used.microbatch;
  };
  const OpId end = program.deviceBegin[first.device + 1];
  while (wait < end && !isWaitFor(program.ops[wait]))
    ++wait;
  if (wait < end)
    noteOp(context, finding, wait, "its wait stands only here");
  noteOthers(context, group, false, finding);
  finding.fix.message = fmt::format("{}`wait {}` before it", wait < end ? "move " : "", transfer);
}

static void reportRecomputeRandom(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  Finding &finding =
      report(context, group, {{"op", opText(context, first.op)}, {"stage", fmt::format("{}", first.stage)}});
  if (auto declared = context.costs.declaredAt.find("random"); declared != context.costs.declaredAt.end())
    finding.notes.push_back({"the stage is declared random here", declared->second, {}, ""});
  noteOthers(context, group, false, finding);
  finding.fix.message = opText(context, first.op) + " replay";
}

static void reportOverlapDependsOnItself(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  Finding &finding =
      report(context, group, {{"op", opText(context, first.op)}, {"producer", opText(context, first.other)}});
  noteOp(context, finding, first.other, opText(context, first.other) + " starts together with it");
  noteOthers(context, group, false, finding);
  finding.fix.message =
      fmt::format("take {} out of the overlap and put it behind", opText(context, first.op));
}

static void reportGroup(VerifyContext &context, const FaultGroup &group) {
  switch (group.front().rule) {
  case Rule::MissingForward:
    return reportMissingForward(context, group);
  case Rule::MissingBackward:
    return reportMissingBackward(context, group);
  case Rule::DuplicateOp:
    return reportDuplicateOp(context, group);
  case Rule::MissingInput:
  case Rule::MissingGradient:
    return reportLateProducer(context, group);
  case Rule::WeightHalfFirst:
    return reportWeightHalfFirst(context, group);
  case Rule::RecomputeWithoutInput:
    return reportRecomputeWithoutInput(context, group);
  case Rule::MissingActivation:
    return reportMissingActivation(context, group);
  case Rule::TransferInFlight:
    return reportTransferInFlight(context, group);
  case Rule::RecomputeRandom:
    return reportRecomputeRandom(context, group);
  default:
    return reportOverlapDependsOnItself(context, group);
  }
}

void verifyActivations(VerifyContext &context) {
  ActivationWalk walk = walkActivations(context.program, context.costs, context.hasMisplacedOps);
  context.kinds = walk.kinds;
  context.hasStarts = walk.hasStarts;
  addUnfinished(context, walk);
  if (walk.faults.empty())
    return;
  // A producer that is missing, or misplaced, has its own finding.
  llvm::erase_if(walk.faults, [&](const Fault &fault) {
    return (fault.rule == Rule::MissingInput || fault.rule == Rule::MissingGradient) &&
           lateProducer(context, fault) == noOp;
  });
  keepFirstCauses(context, Scope::Pair, orderOfBlame, walk.faults);
  for (const FaultGroup &group : groupByLine(context, walk.faults))
    reportGroup(context, group);
  blame(context, walk.faults);
}

} // namespace sluice
