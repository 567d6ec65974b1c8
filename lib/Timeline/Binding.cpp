#include "Timeline/Binding.h"

namespace sluice {

Bindings::Bindings(const Program &program, const ProgramIndex &index, const CostModel &costs,
                   const Timeline &timeline)
    : program(program), index(index), costs(costs), timeline(timeline) {
  if (program.placement.rowCount() < 2)
    return; // no stage has two copies
  std::vector<std::vector<uint32_t>> callsOfStage(program.stages);
  for (uint32_t device = 0; device < program.devices; ++device) {
    std::vector<uint32_t> seen(program.stages);
    for (OpId op = program.deviceBegin[device]; op < program.deviceBegin[device + 1]; ++op) {
      if (program.ops[op].kind != OpKind::Reduce)
        continue;
      uint32_t stage = program.ops[op].stage;
      uint32_t turn = seen[stage]++;
      if (turn == callsOfStage[stage].size()) {
        callsOfStage[stage].push_back(static_cast<uint32_t>(calls.size()));
        calls.emplace_back();
      }
      callOf[op] = callsOfStage[stage][turn];
      calls[callOf[op]].push_back(op);
    }
  }
}

OpId Bindings::overlapBegin(OpId op) const {
  while (program.ops[op].has(OverlapFollower))
    --op;
  return op;
}

OpId Bindings::previous(OpId op) const {
  return op == program.deviceBegin[program.deviceOf(op)] ? noOp : op - 1;
}

void Bindings::consider(const Binding &candidate, Binding &best) const {
  bool wins = candidate.arrival > best.arrival;
  // Program order was considered first and keeps its ties; between inputs the lowest device wins.
  if (candidate.arrival == best.arrival && best.op != noOp && best.kind != EdgeKind::Order)
    wins = program.deviceOf(candidate.op) < program.deviceOf(best.op);
  if (wins)
    best = candidate;
}

void Bindings::considerInputs(const Op &op, Binding &best) const {
  for (const Edge &edge : inputsOf(program, index, op)) {
    int64_t transfer = 0;
    if (edge.kind == EdgeKind::Activation)
      transfer = costs.activationTransfer.at(op.stage - 1, op.microbatch);
    else if (edge.kind == EdgeKind::Gradient)
      transfer = costs.gradientTransfer.at(op.stage + 1, op.microbatch);
    else
      continue; // made earlier on the same device: program order is never before it
    consider({edge.from, edge.kind, timeline.end[edge.from] + transfer, transfer}, best);
  }
}

llvm::ArrayRef<OpId> Bindings::jointCalls(OpId reduce) const {
  auto call = callOf.find(reduce);
  return call == callOf.end() ? llvm::ArrayRef<OpId>() : llvm::ArrayRef<OpId>(calls[call->second]);
}

void Bindings::considerJoint(OpId reduce, Binding &best) const {
  for (OpId member : jointCalls(reduce))
    if (OpId before = previous(member); before != noOp && member != reduce)
      consider({before, EdgeKind::Contribution, timeline.end[before], 0}, best);
}

Binding Bindings::of(OpId first) const {
  Binding best;
  if (OpId before = previous(first); before != noOp)
    best = {before, EdgeKind::Order, timeline.end[before], 0};
  for (OpId op = first, end = program.groupEnd(first); op != end; ++op) {
    considerInputs(program.ops[op], best);
    if (program.ops[op].kind == OpKind::Reduce)
      considerJoint(op, best);
  }
  if (best.op != noOp)
    best.op = overlapBegin(best.op);
  return best;
}

} // namespace sluice
