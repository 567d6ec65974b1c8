#include "IR/CostModel.h"

#include "IR/Program.h"

namespace sluice {

CostModel CostModel::ofTicks(uint32_t stages, int64_t forward, int64_t input, int64_t weight) {
  CostModel costs;
  auto all = [&](int64_t value) { return StageTable<int64_t>(std::vector<int64_t>(stages, value)); };
  costs.forward = all(forward);
  costs.recompute = all(forward);
  costs.backward = all(input + weight);
  costs.backwardInput = all(input);
  costs.backwardWeight = all(weight);
  costs.activationTransfer = costs.gradientTransfer = all(0);
  costs.activation = costs.keptInput = costs.pending = costs.boundary = all(0);
  costs.weights = costs.gradients = costs.optimizerState = costs.workspace = std::vector<int64_t>(stages, 0);
  return costs;
}

int64_t durationOf(const CostModel &costs, const Op &op) {
  switch (op.kind) {
  case OpKind::Forward:
    return costs.forward.at(op.stage, op.microbatch);
  case OpKind::Backward:
    return costs.backward.at(op.stage, op.microbatch);
  case OpKind::BackwardInput:
    return costs.backwardInput.at(op.stage, op.microbatch);
  case OpKind::BackwardWeight:
    return costs.backwardWeight.at(op.stage, op.microbatch);
  case OpKind::Recompute:
    return costs.recompute.at(op.stage, op.microbatch);
  default:
    return 0;
  }
}

int64_t durationOfGroup(const CostModel &costs, const Op *first, uint32_t count) {
  int64_t sum = 0;
  for (uint32_t i = 0; i < count; ++i)
    sum += durationOf(costs, first[i]);
  if (count != 2 || costs.overlapped.empty())
    return sum;
  const Op *forward = &first[0], *backward = &first[1];
  if (forward->kind != OpKind::Forward)
    std::swap(forward, backward);
  if (forward->kind != OpKind::Forward || backward->kind != OpKind::Backward) // halves take the sum
    return sum;
  auto given = costs.overlapped.find({forward->stage, backward->stage});
  return given == costs.overlapped.end() ? sum : given->second;
}

} // namespace sluice
