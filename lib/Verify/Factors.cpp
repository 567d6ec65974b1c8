#include "Verify/Factors.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace sluice {

using Factor = std::optional<Rational>;

static Factor times(const Factor &a, const Factor &b) { return a && b ? multiply(*a, *b) : std::nullopt; }
static Factor over(const Factor &a, const Factor &b) { return a && b ? divide(*a, *b) : std::nullopt; }

bool hasFactors(const Program &program, const CostModel &costs) {
  return !program.factors.empty() || costs.scaling != TrainingTerms::Scaling::Loss ||
         (costs.reductionIsMean && costs.replicas.value_or(1) > 1);
}

FactorCheck::FactorCheck(const VerifyContext &context, const Ties &ties)
    : context(context), program(context.program), ties(ties), loss(program, context.costs) {
  collectLives();
}

void FactorCheck::collectLives() {
  const GradientTerms terms(context.program, context.kinds, context.costs);
  for (uint32_t device = 0; device < program.devices; ++device) {
    llvm::DenseMap<uint32_t, OpId> reductions; // per stage, since its last update
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
      const Op &op = program.ops[id];
      if (op.kind == OpKind::Reduce) {
        if (!op.isWait() && !terms.isIdentity(context.copies.count(op.stage)))
          reductions[op.stage] = id;
      } else if (op.kind == OpKind::Scale) {
        Life &life = lives[VerifyContext::copy(device, op.stage)];
        const Factor before = life.scales.empty() ? Factor(1) : life.scales.back().product;
        life.scales.push_back({id, times(before, program.factorOf(id))});
      } else if (op.kind == OpKind::Update) {
        Life &life = lives[VerifyContext::copy(device, op.stage)];
        auto reduction = reductions.find(op.stage);
        life.updates.push_back({id, reduction == reductions.end() ? noOp : reduction->second});
        if (!life.scales.empty())
          life.scales.push_back({id, Rational(1)});
        reductions.erase(op.stage);
      }
    }
  }
}

const FactorCheck::Life *FactorCheck::lifeOf(uint32_t device, uint32_t stage) const {
  auto life = lives.find(VerifyContext::copy(device, stage));
  return life == lives.end() ? nullptr : &life->second;
}

/// The update that reads a contribution: the first one behind it.
std::optional<size_t> FactorCheck::updateOf(const Life &life, OpId contribution) const {
  auto behind = llvm::partition_point(life.updates, [&](const auto &u) { return u.op < contribution; });
  return behind == life.updates.end() ? std::nullopt : std::optional<size_t>(behind - life.updates.begin());
}

/// Where the value that an update reads stops changing: at the update, or at the reduction that copies it.
OpId FactorCheck::readAt(const UpdatePoint &update, const FactorEdit &edit) const {
  const bool isCopy = context.costs.isCopied && update.reduction != noOp && !edit.beforeCopy;
  return isCopy ? update.reduction : update.op;
}

Factor FactorCheck::productBefore(const Life &life, OpId op) const {
  auto at = llvm::partition_point(life.scales, [&](const ScalePoint &point) { return point.op < op; });
  return at == life.scales.begin() ? Factor(1) : std::prev(at)->product;
}

Factor FactorCheck::suffixOf(OpId id, const FactorEdit &edit) const {
  const Op &op = program.ops[id];
  if (!op.hasFactor() || (edit.onlyWhereLossIsMade && op.stage + 1u < program.stages))
    return Rational(1);
  return program.factorOf(id);
}

/// What scales and the mean of a reduction make of a contribution behind it.
Factor FactorCheck::behind(const Life &life, const UpdatePoint &update, OpId contribution,
                           const FactorEdit &edit) const {
  Factor factor = Rational(1);
  if (!life.scales.empty())
    factor = over(productBefore(life, readAt(update, edit)), productBefore(life, contribution));
  if (context.costs.reductionIsMean && update.reduction != noOp)
    factor = over(factor, Rational(context.costs.replicas.value_or(1)));
  return factor;
}

/// The n-th updates of all copies of a stage read what those copies have gathered for it.
void FactorCheck::groupUpdates(uint32_t stage) {
  groupOf.assign(program.microbatches, noUpdate);
  groups.clear();
  uint32_t lastWhole = ~0u, lastGroup = noUpdate;
  for (uint32_t unit = 0; unit < program.microbatches; ++unit) {
    const OpId id = context.index.contribution(stage, unit);
    const Life *life = id == noOp ? nullptr : lifeOf(program.deviceOf(stage, unit), stage);
    std::optional<size_t> update = life ? updateOf(*life, id) : std::nullopt;
    if (!update)
      continue;
    groupOf[unit] = static_cast<uint32_t>(*update);
    groups.resize(std::max(groups.size(), *update + 1));
    // Splits of one microbatch count once.
    const uint32_t whole = unit / program.sequenceSplits;
    if (whole != lastWhole || groupOf[unit] != lastGroup)
      loss.add(groups[*update], whole);
    lastWhole = whole;
    lastGroup = groupOf[unit];
  }
}

/// What arrives at the last stage, where the loss is made. Where the executor scales by itself, each update's
/// share of it is what is wanted, so factors are counted in parts of that.
void FactorCheck::startRow(const FactorEdit &edit, Row &row) {
  row.resize(program.microbatches);
  for (uint32_t unit = 0; unit < program.microbatches; ++unit) {
    row[unit].isKnown = groupOf[unit] != noUpdate;
    if (row[unit].isKnown)
      row[unit].factor =
          times(isRelative() ? Factor(1) : loss.own(unit / program.sequenceSplits), edit.ofLoss);
  }
}

/// From what arrives at the stage behind to what arrives at `stage`, over every edge between them.
void FactorCheck::passOn(uint32_t stage, const FactorEdit &edit, Row &row, const std::vector<Row> &rows) {
  auto through = [&](uint32_t from, const Arriving &arriving, uint32_t unit) -> Arriving {
    const OpId id = context.index.backward(from, unit);
    if (id == noOp || !arriving.isKnown)
      return {std::nullopt, false};
    return {times(arriving.factor, suffixOf(id, edit)), true};
  };
  for (uint32_t unit = 0; unit < program.microbatches; ++unit)
    row[unit] = through(stage + 1, row[unit], unit);
  for (const SkipEdge &skip : program.skips) {
    if (skip.from != stage || !skip.hasGradient)
      continue;
    for (uint32_t unit = 0; unit < program.microbatches; ++unit) {
      const Arriving other = through(skip.to, rows[skip.to][unit], unit);
      Arriving &here = row[unit];
      if (here.isKnown && here.factor && other.factor && here.factor != other.factor)
        if (OpId id = context.index.contribution(stage, unit); id != noOp && groupOf[unit] != noUpdate) {
          const Factor wanted = loss.target(groups[groupOf[unit]], unit / program.sequenceSplits);
          const Factor share = isRelative() ? wanted : Factor(1);
          faults.push_back({FactorFault::Paths, program.deviceOf(stage, unit), stage, stage, unit, id,
                            times(here.factor, share).value_or(0), wanted.value_or(0), skip.to,
                            times(other.factor, share).value_or(0)});
        }
      here.isKnown &= other.isKnown && here.factor == other.factor;
    }
  }
}

void FactorCheck::compare(uint32_t stage, const FactorEdit &edit, Row &row) {
  for (uint32_t unit = 0; unit < program.microbatches; ++unit) {
    const OpId id = context.index.contribution(stage, unit);
    if (id == noOp || !row[unit].isKnown || groupOf[unit] == noUpdate)
      continue;
    const uint32_t device = program.deviceOf(stage, unit), whole = unit / program.sequenceSplits;
    Factor added = times(row[unit].factor, suffixOf(id, edit));
    if (!edit.ofCopy.empty())
      if (auto more = edit.ofCopy.find(VerifyContext::copy(device, stage)); more != edit.ofCopy.end())
        added = times(added, more->second);
    auto check = [&](uint32_t accumulator) {
      const Life *life = lifeOf(device, accumulator);
      const std::optional<size_t> update = life ? updateOf(*life, id) : std::nullopt;
      if (!update)
        return;
      const Factor wanted = loss.target(groups[groupOf[unit]], whole);
      const Factor behindIt = times(added, behind(*life, life->updates[*update], id, edit));
      const Factor factor = isRelative() ? times(behindIt, wanted) : behindIt;
      if (factor && wanted && *factor == *wanted)
        return;
      faults.push_back({factor && wanted ? FactorFault::Wrong : FactorFault::Overflow, device, stage,
                        accumulator, unit, id, factor.value_or(0), wanted.value_or(0)});
    };
    check(stage);
    for (uint32_t accumulator : ties.alsoAddsTo(stage))
      check(accumulator);
  }
}

std::vector<FactorFault> FactorCheck::run(const FactorEdit &edit) {
  faults.clear();
  using Scaling = TrainingTerms::Scaling;
  const bool onAccumulator =
      context.costs.scaling == Scaling::Accumulator || context.costs.scaling == Scaling::Reduced;
  Row row;
  std::vector<Row> rows(program.skips.empty() ? 0 : program.stages);
  for (uint32_t stage = program.stages; stage-- > 0;) {
    groupUpdates(stage);
    if (stage + 1 == program.stages)
      startRow(edit, row);
    else
      passOn(stage, edit, row, rows);
    for (const LossTerms::Group &group : groups)
      if (onAccumulator && !loss.isServedByOneFactor(group))
        return {{FactorFault::Uneven, noDevice, stage, stage, group.largest, noOp, {}, {}, group.smallest}};
    compare(stage, edit, row);
    if (!rows.empty())
      rows[stage] = row;
  }
  return std::move(faults);
}

/// Scales between a contribution and its update, on the side of the copy that `reach` asks for.
std::vector<OpId> FactorCheck::scalesOf(const FactorFault &fault, bool reach) const {
  std::vector<OpId> scales;
  const Life *life = lifeOf(fault.device, fault.accumulator);
  const std::optional<size_t> update = life ? updateOf(*life, fault.op) : std::nullopt;
  if (!update)
    return scales;
  const UpdatePoint &at = life->updates[*update];
  const OpId read = readAt(at, {});
  for (const ScalePoint &point : life->scales)
    if (point.op > fault.op && point.op < at.op && (point.op < read) == reach)
      scales.push_back(point.op);
  return scales;
}

} // namespace sluice
