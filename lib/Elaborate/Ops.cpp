// The ops of device programs: each gets its stage and microbatch and is appended to the IR.
#include "Elaborate/Elaborator.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

void Elaborator::emit(Op op, uint32_t site) { emit(op, site, frame()); }

void Elaborator::emit(Op op, uint32_t site, uint32_t frame) {
  if (firstFlag)
    op.flags |= std::exchange(memberSeen, true) ? followerFlag : firstFlag;
  if ((collecting ? slotOps.size() : program.ops.size()) >= options.maxOps)
    return tooManyOps(site);
  evaluator.earn();
  if (hasExtras)
    addExtras();
  if (collecting) {
    slotOps.push_back(op);
    return;
  }
  program.ops.push_back(op);
  program.siteOf.push_back(site);
  program.frameOf.push_back(frame);
  if (schedule.usesNext || schedule.usesPending)
    count(op);
}

/// What the op about to be appended names.
void Elaborator::addExtras() {
  hasExtras = false;
  const Extras named = std::exchange(extras, {});
  const OpId id = program.size();
  if (collecting) {
    slotExtras[static_cast<uint32_t>(slotOps.size())] = named;
    return;
  }
  if (named.version)
    program.namedVersions.push_back({id, *named.version});
  if (named.factor)
    program.factors.push_back({id, *named.factor});
  if (named.peer)
    program.peers.push_back({id, *named.peer});
}

void Elaborator::tooManyOps(uint32_t site) {
  if (!std::exchange(stopped, true))
    diagnostics
        .report(Rule::TooManyOps, program.sites[site].span,
                {{"limit", std::to_string(options.maxOps)},
                 {"what", "ops"},
                 {"where", collecting ? ": the timetable would make more"
                                      : fmt::format(": the program of device {} would make more", device)}})
        .fix.message = "a smaller parameter, or a larger --max-ops";
}

/// Keeps what `next` and `oldest` look at.
void Elaborator::count(const Op &op) {
  if (!op.touchesActivation() || localOf[op.stage] == ~0u)
    return;
  uint32_t local = localOf[op.stage];
  if (schedule.usesNext)
    counts.add(local, op.kind, op.microbatch);
  if (!schedule.usesPending)
    return;
  if (op.kind == OpKind::BackwardInput)
    halves.open({local, op.microbatch});
  else if (op.kind == OpKind::BackwardWeight)
    halves.close({local, op.microbatch});
}

void Elaborator::decorate(size_t since, const CheckedOp &op) {
  brokenSites.set(op.site);
  for (size_t i = since; i < diagnostics.findings().size(); ++i) {
    Finding &finding = diagnostics.findings()[i];
    if (!collecting)
      finding.device = device;
    if (finding.op.empty())
      finding.op = op.text;
    if (finding.loops.empty())
      for (size_t level = 0; level < levels.size(); ++level)
        finding.loops.push_back({program.nests[program.sites[op.site].nest][level], levels[level].value});
  }
}

bool Elaborator::indexOutOfRange(const CheckedOp &op, llvm::StringRef what, int64_t index, uint64_t count,
                                 std::optional<int64_t> stage) {
  if (index >= 0 && static_cast<uint64_t>(index) < count)
    return false;
  if (!stage && op.stage == noNode && stagesHere.size() == 1)
    stage = stagesHere[0];
  std::string text =
      what == "microbatch" && stage ? fmt::format("{}({}, {})", name(op.kind).str(), *stage, index) : op.text;
  std::string range = fmt::format("{} {}", what == "microbatch" ? "microbatches" : "stages",
                                  count == 1 ? "are just 0" : fmt::format("are 0 to {}", count - 1));
  Finding &finding = diagnostics.report(
      Rule::IndexOutOfRange, op.span,
      {{"op", text}, {"what", what.str()}, {"index", std::to_string(index)}, {"bound", range}});
  finding.op = text;
  finding.fix.message = index < 0 ? "start the loop or the range later" : "shorten the loop or the range";
  return true;
}

std::optional<uint32_t> Elaborator::stageOf(const CheckedOp &op) {
  auto stage = evaluator.evalInteger(op.stage, "the stage");
  if (!stage || indexOutOfRange(op, "stage", *stage, program.stages))
    return std::nullopt;
  return static_cast<uint32_t>(*stage);
}

/// The one stage placed here for a microbatch, or noStage or severalStages.
int64_t Elaborator::soleStageOf(uint32_t microbatch) {
  uint32_t row = program.placement.row(microbatch);
  int64_t &sole = soleStage[row];
  if (sole == unknownStage) {
    sole = noStage;
    for (uint32_t s : stagesHere)
      if (program.placement.inRow(row, s) == device)
        sole = sole == noStage ? static_cast<int64_t>(s) : severalStages;
  }
  return sole;
}

/// The stage of an op that names none; `microbatch` -1: for any.
std::optional<uint32_t> Elaborator::soleStageFor(const CheckedOp &op, int64_t microbatch) {
  int64_t sole = noStage;
  if (collecting)
    sole = program.stages == 1 ? 0 : severalStages;
  else if (microbatch >= 0)
    sole = soleStageOf(static_cast<uint32_t>(microbatch));
  else if (!stagesHere.empty())
    sole = stagesHere.size() == 1 ? static_cast<int64_t>(stagesHere[0]) : severalStages;
  if (sole >= 0)
    return static_cast<uint32_t>(sole);
  std::string stages = "no stage";
  if (sole == severalStages) {
    stages = "stages ";
    size_t shown = std::min<size_t>(stagesHere.size(), 8);
    for (size_t i = 0; i < shown; ++i)
      stages += fmt::format("{}{}", i == 0 ? "" : ", ", stagesHere[i]);
    if (shown < stagesHere.size())
      stages += ", ...";
    if (collecting)
      stages = "several";
  }
  Finding &finding = diagnostics.report(
      Rule::StageAmbiguous, op.span,
      {{"op", op.text},
       {"device", collecting ? "of the timetable" : std::to_string(device)},
       {"stages", stages},
       {"microbatch", microbatch < 0 ? "" : fmt::format(" for microbatch {}", microbatch)}});
  finding.fix.message = sole == severalStages ? fmt::format("name it: {}({}, ...)", name(op.kind).str(),
                                                            stagesHere.empty() ? 0 : stagesHere[0])
                                              : "move the op to the device of its stage";
  return std::nullopt;
}

void Elaborator::nothingLeft(const CheckedOp &op, const std::string &what) {
  auto made = llvm::count(llvm::ArrayRef(program.siteOf).drop_front(program.deviceBegin.back()), op.site);
  diagnostics
      .report(Rule::NothingLeft, op.span,
              {{"op", op.text}, {"device", std::to_string(device)}, {"what", what}})
      .fix.message =
      made == 0 ? "delete it, or `if any`" : fmt::format("lower the count to {}, or `if any`", made);
}

std::optional<uint32_t> Elaborator::next(const CheckedOp &op, uint32_t stage) {
  bool here = localOf[stage] != ~0u;
  auto isHere = [&](uint32_t m) { return program.placement.at(stage, m) == device; };
  if (auto m = here ? counts.lowest(localOf[stage], op.kind, isHere) : std::nullopt)
    return m;
  if (!op.ifAny)
    nothingLeft(op, fmt::format("{} of stage {}{}", name(op.kind).str(), stage,
                                here ? "" : ", which has no copy here,"));
  return std::nullopt;
}

/// backward_weight of the oldest, newest or all pending halves; `stage` -1: of any stage here.
void Elaborator::pending(const CheckedOp &op, int64_t stage, bool mayBeNone) {
  std::optional<uint32_t> local;
  if (stage >= 0)
    local = localOf[static_cast<size_t>(stage)];
  bool any = false;
  while (auto half = local == ~0u ? std::nullopt : halves.take(op.form == MicrobatchForm::Newest, local)) {
    if (!takeExtras(op, half->microbatch))
      return;
    emit({OpKind::BackwardWeight, op.flags, static_cast<uint16_t>(stagesHere[half->stage]), half->microbatch},
         op.site);
    any = true;
    if (op.form != MicrobatchForm::All || stopped)
      return;
  }
  if (!any && !mayBeNone)
    nothingLeft(op,
                stage < 0 ? "pending weight half" : fmt::format("pending weight half of stage {}", stage));
}

/// Most ops: numbers that are just there, and nothing wrong. False: the long way must be taken.
bool Elaborator::plainOp(const CheckedOp &op) {
  int64_t microbatch, stage;
  if (op.form != MicrobatchForm::Number || collecting || op.takesExtras() || isBroken(op.site) ||
      !evaluator.tryInteger(op.microbatch, microbatch) ||
      static_cast<uint64_t>(microbatch) >= program.microbatches)
    return false;
  auto m = static_cast<uint32_t>(microbatch);
  if (op.stage == noNode)
    stage = soleStageOf(m);
  else if (!evaluator.tryInteger(op.stage, stage))
    return false;
  if (static_cast<uint64_t>(stage) >= program.stages)
    return false;
  emit({op.kind, op.flags, static_cast<uint16_t>(stage), m}, op.site);
  return true;
}

/// What suffixes name goes to the op that is emitted next.
bool Elaborator::takeExtras(const CheckedOp &op, uint32_t microbatch) {
  if (!op.takesExtras())
    return true;
  extras = {};
  if (!takeVersion(op, microbatch))
    return false;
  if (op.peer != noNode) {
    auto peer = evaluator.evalInteger(op.peer, "the other stage");
    if (!peer || indexOutOfRange(op, "stage", *peer, program.stages))
      return false;
    extras.peer = static_cast<uint32_t>(*peer);
  }
  if (op.factor != noNode) {
    Value factor = evaluator.eval(op.factor);
    if (!factor)
      return false;
    if (!factor.isNumber() || !factor.dimension.isNone() || factor.number.num == 0) {
      diagnostics
          .report(Rule::ValueOutOfRange, op.span,
                  {{"what", fmt::format("the factor {} is no number but 0", evaluator.str(factor))}})
          .fix.message = "a number without a unit, such as 1 / M; drop the op to leave a contribution out";
      return false;
    }
    extras.factor = factor.number;
  }
  return hasExtras = true;
}

/// Ops of a stage, of a tied weight or of the whole device.
void Elaborator::withoutMicrobatch(const CheckedOp &op, std::optional<uint32_t> stage) {
  auto make = [&](uint32_t s, uint32_t microbatch) {
    if (takeExtras(op, noMicrobatch))
      emit({op.kind, op.flags, static_cast<uint16_t>(s), microbatch}, op.site);
  };
  if (op.kind == OpKind::ReduceTied) {
    if (op.tied >= program.ties.size())
      return; // its stages are wrong: reported there
    // Of the stages that share the weight the first on this device stands for its share.
    const std::vector<uint32_t> &members = program.ties[op.tied].stages;
    auto here = llvm::find_if(members, [&](uint32_t s) { return localOf[s] != ~0u; });
    return make(here == members.end() ? members[0] : *here, op.tied);
  }
  if (op.kind == OpKind::Norm)
    return make(0, noMicrobatch);
  if (stage)
    return make(*stage, noMicrobatch);
  for (uint32_t s : stagesHere)
    make(s, noMicrobatch);
}

/// `using version e`
bool Elaborator::takeVersion(const CheckedOp &op, uint32_t microbatch) {
  if (op.version == noNode)
    return true;
  auto version = evaluator.evalInteger(op.version, "the version");
  if (!version)
    return false;
  if (*version >= 0 && *version < INT32_MAX) {
    extras.version = static_cast<uint32_t>(*version);
    return true;
  }
  diagnostics
      .report(Rule::ValueOutOfRange, op.span,
              {{"what", fmt::format("version {} of microbatch {} does not exist", *version, microbatch)}})
      .fix.message = "versions start at 0, the initial weights";
  return false;
}

void Elaborator::op(const CheckedOp &op) {
  if (plainOp(op) || isBroken(op.site))
    return;
  size_t before = diagnostics.findings().size();
  auto fail = [&] { decorate(before, op); };
  std::optional<uint32_t> stage;
  if (op.stage != noNode && !(stage = stageOf(op)))
    return fail();
  switch (op.form) {
  case MicrobatchForm::None:
    withoutMicrobatch(op, stage);
    if (diagnostics.findings().size() != before)
      fail();
    return;
  case MicrobatchForm::Number: {
    auto m = evaluator.evalInteger(op.microbatch, "the microbatch");
    if (!m || indexOutOfRange(op, "microbatch", *m, program.microbatches, stage))
      return fail();
    if ((!stage && !(stage = soleStageFor(op, *m))) || !takeExtras(op, static_cast<uint32_t>(*m)))
      return fail();
    return emit({op.kind, op.flags, static_cast<uint16_t>(*stage), static_cast<uint32_t>(*m)}, op.site);
  }
  case MicrobatchForm::Next: {
    if (!stage && !(stage = soleStageFor(op, -1)))
      return fail();
    if (auto m = next(op, *stage)) {
      if (!takeExtras(op, *m))
        return fail();
      return emit({op.kind, op.flags, static_cast<uint16_t>(*stage), *m}, op.site);
    }
    break;
  }
  default:
    pending(op, stage ? static_cast<int64_t>(*stage) : -1, op.ifAny || op.form == MicrobatchForm::All);
  }
  if (diagnostics.findings().size() != before)
    fail();
}

} // namespace sluice
