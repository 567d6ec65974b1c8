// 201 to 210 in words: what the walk of Activations.cpp met, and pairs that end unfinished.
#include "Verify/Activations.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

// 209 and 210 come last: they do not explain the others, and a warning never hides an error. Every rule of
// the family is listed.
static constexpr Rule orderOfBlame[] = {
    Rule::MissingForward,         Rule::DuplicateOp,           Rule::MissingInput,      Rule::MissingGradient,
    Rule::WeightHalfFirst,        Rule::RecomputeWithoutInput, Rule::MissingActivation, Rule::MissingBackward,
    Rule::OverlapDependsOnItself, Rule::RecomputeRandom};

/// Pairs that have not run forward and backward by the end of the step.
static void addUnfinished(const VerifyContext &context, ActivationWalk &walk) {
  const Program &program = context.program;
  constexpr PairState finished{Activation::Done, true, true};
  for (uint32_t s = 0; s < program.stages; ++s)
    for (uint32_t m = 0; m < program.microbatches; ++m) {
      const PairState &state = walk.states[context.pair(s, m)];
      if (state == finished || program.deviceOf(s, m) == noDevice)
        continue;
      const auto cause = static_cast<uint8_t>(state.activation);
      if (!state.forwardRan)
        walk.faults.push_back({Rule::MissingForward, 0, program.deviceOf(s, m), s, m, noOp, noOp});
      else if (state.activation != Activation::Done)
        walk.faults.push_back({Rule::MissingBackward, cause, program.deviceOf(s, m), s, m,
                               state.activation == Activation::Half ? context.index.backward(s, m)
                                                                    : context.index.forward(s, m),
                               noOp});
    }
}

/// The op on the same device that `fault` waits for; noOp if it is made nowhere or elsewhere.
static OpId lateProducer(const VerifyContext &context, const Fault &fault) {
  const uint32_t s = fault.stage, m = fault.microbatch;
  const bool isSplit = fault.cause == ofSplit;
  OpId producer = fault.rule == Rule::MissingInput
                      ? context.index.forward(isSplit ? s : s - 1, isSplit ? m - 1 : m)
                      : context.index.backward(isSplit ? s : s + 1, isSplit ? m + 1 : m);
  bool isHere = producer != noOp && context.program.deviceOf(producer) == fault.device;
  return isHere ? producer : noOp;
}

/// The last op before `id` on its device that works on the same pair and satisfies `isWanted`.
template <typename Predicate>
static OpId lastBefore(const VerifyContext &context, OpId id, Predicate isWanted) {
  const Program &program = context.program;
  const Op &op = program.ops[id];
  const OpId begin = program.deviceBegin[program.deviceOf(id)];
  for (OpId at = id; at-- > begin;) {
    const Op &before = program.ops[at];
    if (before.hasMicrobatch() && before.stage == op.stage && before.microbatch == op.microbatch &&
        isWanted(before))
      return at;
  }
  return noOp;
}

static bool isBackward(const Op &op) {
  return op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput;
}

namespace {
/// How an activation came to be unusable, and the op that made it so.
struct Loss {
  std::string words, note;
  OpId op = noOp;
};
} // namespace

/// `preposition` leads to the line: an activation *is* dropped *since* it, an input *was* dropped *at* it.
static Loss lossOf(const VerifyContext &context, const Fault &fault, llvm::StringRef preposition) {
  const OpId forward = context.index.forward(fault.stage, fault.microbatch);
  auto where = [&](OpId op) {
    bool hasLine = op != noOp && context.sources && context.program.spanOf(op).isValid();
    return hasLine ? atLine(context, op, fault.op, preposition) : "";
  };
  switch (static_cast<Activation>(fault.cause)) {
  case Activation::None:
    return {"not made yet", "its forward stands only here", forward};
  case Activation::Input: {
    OpId op = lastBefore(context, fault.op, [](const Op &o) { return o.has(KeepInput); });
    return {"kept as input only" + where(op), "only the input is kept here", op};
  }
  case Activation::Gone: {
    OpId op = lastBefore(context, fault.op,
                         [](const Op &o) { return o.kind == OpKind::Drop || o.has(KeepNothing); });
    bool isDropped = op != noOp && context.program.ops[op].kind == OpKind::Drop;
    return {(isDropped ? "dropped" : "not kept") + where(op),
            isDropped ? "it is dropped here" : "nothing is kept here", op};
  }
  case Activation::Half:
  case Activation::Done: {
    OpId op = lastBefore(context, fault.op, [](const Op &o) { return isBackward(o); });
    return {"used" + where(op), "it is used here", op};
  }
  case Activation::Saved: {
    OpId op = lastBefore(context, fault.op, [](const Op &o) { return o.kind == OpKind::Forward; });
    return {"kept whole" + where(op), "the whole activation is kept here", op};
  }
  }
  return {};
}

static std::string opOf(OpKind kind, const Fault &fault) {
  return str(Op{kind, 0, static_cast<uint16_t>(fault.stage), fault.microbatch});
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
    return isBackward(op)
               ? isBackward(o)
               : o.kind == op.kind || (op.kind == OpKind::BackwardWeight && o.kind == OpKind::Backward);
  });
  std::string where;
  if (earlier != noOp) {
    where = atLine(context, earlier, first.op);
  } else { // a recompute of what the forward has kept whole
    earlier = context.index.forward(first.stage, first.microbatch);
    where = fmt::format(" in effect: {} keeps the whole activation{}", opText(context, earlier),
                        atLine(context, earlier, first.op));
  }
  Finding &finding = report(context, group, {{"op", str(op)}, {"where", where}});
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
  else
    finding.fix.message = "delete it, or move it before the backward";
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
  if (context.program.ops[first.op].kind == OpKind::Drop)
    finding.fix.message = "delete it";
  else if (static_cast<Activation>(first.cause) == Activation::None)
    finding.fix.message = fmt::format("move it behind {}", opOf(OpKind::Forward, first));
  else if (static_cast<Activation>(first.cause) == Activation::Input)
    finding.fix.message = fmt::format("{} before it", opOf(OpKind::Recompute, first));
  else
    finding.fix.message =
        fmt::format("{} keep input, and {} before it",
                    opOf(loss.op == noOp ? OpKind::Forward : context.program.ops[loss.op].kind, first),
                    opOf(OpKind::Recompute, first));
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
  case Rule::RecomputeRandom:
    return reportRecomputeRandom(context, group);
  default:
    return reportOverlapDependsOnItself(context, group);
  }
}

void verifyActivations(VerifyContext &context) {
  ActivationWalk walk = walkActivations(context.program, context.costs, context.hasMisplacedOps);
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
