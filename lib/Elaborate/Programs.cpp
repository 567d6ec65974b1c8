// Device programs: statements run, ops get their stage and microbatch and are appended to the IR.
#include "Elaborate/Elaborator.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

/// `backward` and `backward_input` are one kind for `next`.
static unsigned countedKind(OpKind kind) {
  switch (kind) {
  case OpKind::Forward:
    return 0;
  case OpKind::Backward:
  case OpKind::BackwardInput:
    return 1;
  case OpKind::BackwardWeight:
    return 2;
  case OpKind::Recompute:
    return 3;
  default:
    return 4;
  }
}

void Elaborator::beginDevice(uint32_t d) {
  stagesHere = program.stagesOn(d);
  localOf.assign(program.stages, ~0u);
  for (uint32_t i = 0; i < stagesHere.size(); ++i)
    localOf[stagesHere[i]] = i;
  soleStage.assign(program.placement.rowCount(), -1);
  for (uint32_t row = 0; row < soleStage.size(); ++row)
    for (uint32_t s : stagesHere)
      if (program.placement.inRow(row, s) == d)
        soleStage[row] = soleStage[row] == -1 ? static_cast<int64_t>(s) : -2;
  if (schedule.usesNext)
    counts.assign(stagesHere.size() * countedKinds, {});
  if (schedule.usesPending) {
    halves.clear();
    firstOpenHalf = 0;
    halvesOf.assign(stagesHere.size(), {});
    firstOpenHalfOf.assign(stagesHere.size(), 0);
  }
}

uint32_t Elaborator::frame() {
  if (levels.empty() || levels.back().frame != 0)
    return levels.empty() ? 0 : levels.back().frame;
  // Frames are made when an op needs them: most turns of most loops share one between their ops.
  uint32_t parent = 0;
  size_t depth = levels.size();
  while (depth > 0 && levels[depth - 1].frame == 0)
    --depth;
  if (depth > 0)
    parent = levels[depth - 1].frame;
  for (; depth < levels.size(); ++depth) {
    program.frames.push_back({parent, static_cast<int32_t>(levels[depth].value)});
    parent = levels[depth].frame = static_cast<uint32_t>(program.frames.size() - 1);
  }
  return parent;
}

void Elaborator::emit(Op op, uint32_t site) { emit(op, site, frame()); }

void Elaborator::emit(Op op, uint32_t site, uint32_t frame) {
  if (overlapOpen) {
    op.flags |= overlapStarted ? OverlapFollower : OverlapFirst;
    overlapStarted = true;
  }
  if ((collecting ? slotOps.size() : program.ops.size()) >= options.maxOps)
    return tooManyOps(site);
  evaluator.earn();
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
  if (!op.hasMicrobatch() || op.stage >= localOf.size() || localOf[op.stage] == ~0u)
    return;
  uint32_t local = localOf[op.stage];
  if (schedule.usesNext) {
    Count &kind = counts[local * countedKinds + countedKind(op.kind)];
    if (kind.done.size() <= op.microbatch)
      kind.done.resize(program.microbatches);
    kind.done.set(op.microbatch);
  }
  if (!schedule.usesPending)
    return;
  if (op.kind == OpKind::BackwardInput) {
    halvesOf[local].push_back(static_cast<uint32_t>(halves.size()));
    halves.push_back({op.stage, op.microbatch, true});
  } else if (op.kind == OpKind::BackwardWeight) {
    for (size_t i = firstOpenHalfOf[local]; i < halvesOf[local].size(); ++i)
      if (PendingHalf &half = halves[halvesOf[local][i]]; half.isOpen && half.microbatch == op.microbatch) {
        half.isOpen = false;
        break;
      }
    while (firstOpenHalf < halves.size() && !halves[firstOpenHalf].isOpen)
      ++firstOpenHalf;
    size_t &first = firstOpenHalfOf[local];
    while (first < halvesOf[local].size() && !halves[halvesOf[local][first]].isOpen)
      ++first;
  }
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

void Elaborator::statements(llvm::ArrayRef<CheckedStatement> list) {
  for (const CheckedStatement &entry : list) {
    if (stopped)
      return;
    statement(entry);
  }
}

/// Findings of a program's statement belong to its device; those of a timetable to none yet.
void Elaborator::placeFindings(size_t since) {
  for (size_t i = since; i < diagnostics.findings().size() && !inTimetable; ++i)
    diagnostics.findings()[i].device = device;
}

void Elaborator::giveUp(size_t since) {
  placeFindings(since);
  stopped = true;
}

void Elaborator::statement(const CheckedStatement &statement) {
  size_t before = diagnostics.findings().size();
  if (!evaluator.spend(statement.span))
    return giveUp(before);
  if (!leftOut.empty() && leftOut.contains(&statement))
    return;
  switch (statement.kind) {
  case CheckedStatement::Kind::Op:
    return op(statement.op);
  case CheckedStatement::Kind::For:
    return loop(statement);
  case CheckedStatement::Kind::Let:
    if (evaluator.assign(statement.slot, statement.value))
      return;
    break;
  case CheckedStatement::Kind::If:
    if (auto condition = evaluator.evalBoolean(statement.value, "the condition"))
      return statements(*condition ? statement.body : statement.otherwise);
    break;
  case CheckedStatement::Kind::Repeat:
    if (auto count = evaluator.evalInteger(statement.value, "the count")) {
      for (int64_t i = 0; i < *count && !stopped; ++i)
        turn(statement);
      return;
    }
    break;
  case CheckedStatement::Kind::Overlap:
    overlapOpen = true;
    overlapStarted = false;
    statements(statement.body);
    overlapOpen = false;
    return;
  case CheckedStatement::Kind::At:
    return at(statement);
  case CheckedStatement::Kind::Fill:
    return fill(statement.op);
  }
  leaveOut(statement, before);
}

/// A statement whose value is wrong is left out from here on. The others go on, so that one run finds the
/// faults of all; what depends on its value is silent.
void Elaborator::leaveOut(const CheckedStatement &statement, size_t since) {
  leftOut.insert(&statement);
  placeFindings(since);
}

void Elaborator::loop(const CheckedStatement &statement) {
  size_t before = diagnostics.findings().size();
  auto bounds = evaluator.evalRange(statement.range);
  if (!bounds)
    return leaveOut(statement, before);
  constexpr int64_t limit = int64_t(1) << 31;
  if (bounds->first < bounds->last && (bounds->first < -limit || bounds->last > limit)) {
    diagnostics.report(Rule::ValueOutOfRange, statement.span,
                       {{"what", "the loop leaves the range -2147483648..2147483648"}});
    stopped = true;
    return;
  }
  levels.push_back({0, 0});
  int64_t count = bounds->first >= bounds->last
                      ? 0
                      : (bounds->last - bounds->first - 1) / bounds->step + 1;
  for (int64_t i = 0; i < count && !stopped; ++i) {
    int64_t value = bounds->first + (statement.reversed ? count - 1 - i : i) * bounds->step;
    levels.back() = {value, 0};
    evaluator.set(statement.slot, value);
    turn(statement);
  }
  levels.pop_back();
}

/// One turn of a `for` or `repeat`. What its `let`s hold ends with it.
void Elaborator::turn(const CheckedStatement &loop) {
  size_t before = diagnostics.findings().size(), lists = evaluator.listMark();
  if (!evaluator.spend(loop.span))
    return giveUp(before);
  statements(loop.body);
  evaluator.releaseLists(lists);
}

bool Elaborator::indexOutOfRange(const CheckedOp &op, llvm::StringRef what, int64_t index, uint64_t count,
                                 std::optional<int64_t> stage) {
  if (index >= 0 && static_cast<uint64_t>(index) < count)
    return false;
  if (!stage && op.stage == noNode && stagesHere.size() == 1)
    stage = stagesHere[0];
  std::string text = what == "microbatch" && stage
                         ? fmt::format("{}({}, {})", name(op.kind).str(), *stage, index)
                         : op.text;
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

/// The stage of an op that names none; `microbatch` -1: for any.
std::optional<uint32_t> Elaborator::soleStageFor(const CheckedOp &op, int64_t microbatch) {
  int64_t sole = -1;
  if (collecting)
    sole = program.stages == 1 ? 0 : -2;
  else if (microbatch >= 0)
    sole = soleStage[program.placement.row(static_cast<uint32_t>(microbatch))];
  else if (!stagesHere.empty())
    sole = stagesHere.size() == 1 ? static_cast<int64_t>(stagesHere[0]) : -2;
  if (sole >= 0)
    return static_cast<uint32_t>(sole);
  std::string stages = "no stage";
  if (sole == -2) {
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
  finding.fix.message = sole == -2 ? fmt::format("name it: {}({}, ...)", name(op.kind).str(),
                                                 stagesHere.empty() ? 0 : stagesHere[0])
                                   : "move the op to the device of its stage";
  return std::nullopt;
}

void Elaborator::nothingLeft(const CheckedOp &op, const std::string &what) {
  auto made = llvm::count(llvm::ArrayRef(program.siteOf).drop_front(program.deviceBegin.back()), op.site);
  diagnostics
      .report(Rule::NothingLeft, op.span, {{"op", op.text}, {"device", std::to_string(device)}, {"what", what}})
      .fix.message = made == 0 ? "delete it, or `if any`" : fmt::format("lower the count to {}, or `if any`", made);
}

std::optional<uint32_t> Elaborator::next(const CheckedOp &op, uint32_t stage) {
  if (localOf[stage] == ~0u) {
    if (!op.ifAny)
      nothingLeft(op, fmt::format("{} of stage {}, which has no copy here,", name(op.kind).str(), stage));
    return std::nullopt;
  }
  Count &count = counts[localOf[stage] * countedKinds + countedKind(op.kind)];
  uint32_t &m = count.lowest;
  while (m < program.microbatches && ((m < count.done.size() && count.done.test(m)) ||
                                      program.placement.at(stage, m) != device))
    ++m;
  if (m < program.microbatches)
    return m;
  if (!op.ifAny)
    nothingLeft(op, fmt::format("{} of stage {}", name(op.kind).str(), stage));
  return std::nullopt;
}

/// backward_weight of the oldest, newest or all pending halves; `stage` -1: of any stage here.
void Elaborator::pending(const CheckedOp &op, int64_t stage) {
  bool here = stage < 0 || localOf[static_cast<size_t>(stage)] != ~0u;
  uint32_t local = stage >= 0 && here ? localOf[static_cast<size_t>(stage)] : 0;
  auto find = [&]() -> std::optional<PendingHalf> {
    if (!here)
      return std::nullopt;
    if (op.form != MicrobatchForm::Newest) {
      if (stage < 0)
        return firstOpenHalf < halves.size() ? std::optional(halves[firstOpenHalf]) : std::nullopt;
      size_t first = firstOpenHalfOf[local];
      return first < halvesOf[local].size() ? std::optional(halves[halvesOf[local][first]]) : std::nullopt;
    }
    if (stage < 0) {
      for (size_t i = halves.size(); i-- > firstOpenHalf;)
        if (halves[i].isOpen)
          return halves[i];
      return std::nullopt;
    }
    for (size_t i = halvesOf[local].size(); i-- > firstOpenHalfOf[local];)
      if (PendingHalf &half = halves[halvesOf[local][i]]; half.isOpen)
        return half;
    return std::nullopt;
  };
  bool any = false;
  while (auto half = find()) {
    emit({OpKind::BackwardWeight, op.flags, static_cast<uint16_t>(half->stage), half->microbatch}, op.site);
    any = true;
    if (op.form != MicrobatchForm::All || stopped)
      return;
  }
  if (!any && !op.ifAny && op.form != MicrobatchForm::All)
    nothingLeft(op, stage < 0 ? "pending weight half" : fmt::format("pending weight half of stage {}", stage));
}

/// Most ops: numbers that are just there, and nothing wrong. False: the long way must be taken.
bool Elaborator::plainOp(const CheckedOp &op) {
  int64_t microbatch, stage;
  if (op.form != MicrobatchForm::Number || collecting || isBroken(op.site) ||
      !evaluator.tryInteger(op.microbatch, microbatch) ||
      static_cast<uint64_t>(microbatch) >= program.microbatches)
    return false;
  auto m = static_cast<uint32_t>(microbatch);
  if (op.stage == noNode)
    stage = soleStage[program.placement.row(m)];
  else if (!evaluator.tryInteger(op.stage, stage))
    return false;
  if (static_cast<uint64_t>(stage) >= program.stages)
    return false;
  emit({op.kind, op.flags, static_cast<uint16_t>(stage), m}, op.site);
  return true;
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
    if (stage)
      return emit({op.kind, op.flags, static_cast<uint16_t>(*stage), noMicrobatch}, op.site);
    for (uint32_t s : stagesHere)
      emit({op.kind, op.flags, static_cast<uint16_t>(s), noMicrobatch}, op.site);
    return;
  case MicrobatchForm::Number: {
    auto m = evaluator.evalInteger(op.microbatch, "the microbatch");
    if (!m || indexOutOfRange(op, "microbatch", *m, program.microbatches, stage))
      return fail();
    if (!stage && !(stage = soleStageFor(op, *m)))
      return fail();
    return emit({op.kind, op.flags, static_cast<uint16_t>(*stage), static_cast<uint32_t>(*m)}, op.site);
  }
  case MicrobatchForm::Next: {
    if (!stage && !(stage = soleStageFor(op, -1)))
      return fail();
    if (auto m = next(op, *stage))
      return emit({op.kind, op.flags, static_cast<uint16_t>(*stage), *m}, op.site);
    break;
  }
  default:
    pending(op, stage ? static_cast<int64_t>(*stage) : -1);
  }
  if (diagnostics.findings().size() != before)
    fail();
}

} // namespace sluice
