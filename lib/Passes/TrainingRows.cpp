#include "Passes/TrainingRows.h"

#include "Passes/Ties.h"

namespace sluice {

using runtime::Instruction;
using RuntimeOp = runtime::Op;

TrainingRows::TrainingRows(const Program &program, const CostModel &costs, const LossScales &scales)
    : program(program), costs(costs), scales(scales) {
  for (const Op &op : program.ops) {
    hasZero |= op.kind == OpKind::Zero;
    hasUpdate |= op.kind == OpKind::Update;
    hasOverwrite |= op.overwrites();
  }
  if (costs.scaling != TrainingTerms::Scaling::Reduced || costs.isCopied)
    return;
  scalesBehind.assign(program.stages, true);
  for (const TiedWeight &weight : program.ties)
    if (!isLocal(program, weight))
      for (uint32_t stage : weight.stages)
        scalesBehind[stage] = false;
}

void TrainingRows::beginDevice(uint32_t) {
  overwriting.clear();
  if (!scales.ofUpdate.empty()) {
    updates.assign(program.stages, 0);
    isScaled.assign(program.stages, false);
  }
  if (costs.reshardsAfterReduce)
    isGathered.assign(program.stages, false);
}

uint32_t TrainingRows::factor(const Fraction &factor) {
  auto [found, isNew] =
      numberOf.try_emplace({factor.numerator, factor.denominator}, static_cast<uint32_t>(factors.size()));
  if (isNew)
    factors.push_back(factor);
  return found->second;
}

static Instruction rowOf(RuntimeOp op, uint32_t stage, uint32_t d = runtime::noSlot) {
  return {op,
          0,
          static_cast<uint16_t>(stage),
          runtime::noMicrobatch,
          runtime::noSlot,
          runtime::noSlot,
          runtime::noSlot,
          d};
}

/// Of the update to come, unless it is scaled already.
void TrainingRows::scale(uint32_t stage, Rows &rows) {
  if (scales.ofUpdate.empty() || isScaled[stage])
    return;
  isScaled[stage] = true;
  const std::vector<Fraction> &ofUpdate = scales.ofUpdate[stage];
  if (updates[stage] < ofUpdate.size() && ofUpdate[updates[stage]] != Fraction{1, 1})
    rows.push_back(rowOf(RuntimeOp::Scale, stage, factor(ofUpdate[updates[stage]])));
}

void TrainingRows::beforeReduction(uint32_t stage, Rows &rows) {
  if (scalesBehind.empty() || !scalesBehind[stage])
    scale(stage, rows);
}

void TrainingRows::afterReduction(const Op &op, Rows &rows) {
  // Weights go when the reduction starts, whenever it ends.
  if (!isGathered.empty() && !op.isWait() && isGathered[op.stage]) {
    isGathered[op.stage] = false;
    rows.push_back(rowOf(RuntimeOp::Reshard, op.stage));
  }
  if (!scalesBehind.empty() && scalesBehind[op.stage] && !op.isStarted())
    scale(op.stage, rows);
}

// In asynchronous programs contributions may stand between a norm and an update.
void TrainingRows::beforeNorm(uint32_t stage, Rows &rows) {
  if (!costs.asynchronous)
    scale(stage, rows);
}

void TrainingRows::beforeUpdate(uint32_t stage, Rows &rows) {
  if (scales.ofUpdate.empty())
    return;
  scale(stage, rows);
  ++updates[stage];
  isScaled[stage] = false;
}

void TrainingRows::gather(const Op &op) {
  if (!isGathered.empty() && !op.isWait())
    isGathered[op.stage] = op.kind == OpKind::Unshard;
}

static bool isContribution(RuntimeOp op) {
  return op == RuntimeOp::Backward || op == RuntimeOp::BackwardWeight;
}

// An accumulator is emptied by its update, or where a schedule says `zero` or `overwrite` anywhere, by that
// alone; steps follow each other, so the walk goes round twice.
void TrainingRows::flagContributions(Rows &rows) const {
  for (size_t row : overwriting)
    rows[row].flags |= runtime::FirstContribution;
  std::vector<bool> isEmpty(program.stages, true);
  const bool isEmptied = hasZero || hasOverwrite || hasUpdate;
  const RuntimeOp emptying = hasZero || hasOverwrite ? RuntimeOp::Zero : RuntimeOp::Update;
  for (int round = 0; round < 2; ++round) {
    if (!isEmptied)
      isEmpty.assign(program.stages, true);
    size_t next = 0; // into overwriting
    for (size_t i = 0; i < rows.size(); ++i) {
      Instruction &row = rows[i];
      if (isContribution(row.op)) {
        const bool overwrites = next < overwriting.size() && overwriting[next] == i;
        next += overwrites;
        row.flags = isEmpty[row.stage] || overwrites ? row.flags | runtime::FirstContribution
                                                     : row.flags & ~runtime::FirstContribution;
        isEmpty[row.stage] = false;
      } else if (row.op == emptying) {
        isEmpty[row.stage] = true;
      }
    }
  }
  std::vector<bool> isLast(program.stages, true);
  for (size_t i = rows.size(); i-- > 0;) {
    Instruction &row = rows[i];
    if (isContribution(row.op)) {
      if (isLast[row.stage])
        row.flags |= runtime::LastContribution;
      isLast[row.stage] = false;
    } else if (row.op == RuntimeOp::Reduce || row.op == RuntimeOp::Update) {
      isLast[row.stage] = true;
    }
  }
}

} // namespace sluice
