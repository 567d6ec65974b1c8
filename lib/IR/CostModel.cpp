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

static int64_t ofStage(const std::vector<int64_t> &times, uint32_t stage) {
  return times.empty() ? 0 : times[stage];
}

/// Of a collective, or a move to or from the host; of a send or receive under `transfers = blocking`.
static int64_t movingTime(const CostModel &costs, const Op &op) {
  switch (op.kind) {
  case OpKind::Reduce:
    return ofStage(costs.reduce, op.stage);
  case OpKind::Unshard:
    return ofStage(costs.unshard, op.stage);
  case OpKind::ReduceTied:
    return ofStage(costs.reduceTied, op.microbatch);
  case OpKind::Offload:
    return costs.offload.empty() ? 0 : costs.offload.at(op.stage, op.microbatch);
  case OpKind::Reload:
    return costs.reload.empty() ? 0 : costs.reload.at(op.stage, op.microbatch);
  default:
    break;
  }
  if (!costs.transfersBlock || op.namesPeer())
    return 0;
  switch (op.kind) {
  case OpKind::SendActivation:
    return costs.activationTransfer.at(op.stage, op.microbatch);
  case OpKind::RecvActivation:
    return op.stage == 0 ? 0 : costs.activationTransfer.at(op.stage - 1u, op.microbatch);
  case OpKind::SendGradient:
    return costs.gradientTransfer.at(op.stage, op.microbatch);
  case OpKind::RecvGradient:
    return op.stage + 1u < costs.gradientTransfer.stageCount()
               ? costs.gradientTransfer.at(op.stage + 1u, op.microbatch)
               : 0;
  default:
    return 0;
  }
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
  case OpKind::Update:
    return ofStage(costs.update, op.stage);
  case OpKind::Drop:
  case OpKind::Zero:
  case OpKind::Reshard:
  case OpKind::Scale:
  case OpKind::Norm:
    return 0;
  default:
    return op.isStarted() || op.isWait() ? 0 : movingTime(costs, op);
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
