#include "Timeline/Binding.h"

#include "Timeline/EventBinding.h"
#include "Timeline/SimulateEvents.h"

namespace sluice {

Bindings::Bindings(const Program &program, const ProgramIndex &index, const CostModel &costs,
                   const Timeline &timeline)
    : program(program), index(index), costs(costs), timeline(timeline) {
  if (program.isExplicit) {
    events = std::make_unique<EventBindings>(program, costs, timeline);
    return;
  }
  auto isCall = [&](const Op &op) {
    return op.kind >= OpKind::ReduceTied || (op.kind == OpKind::Reduce && program.placement.rowCount() > 1);
  };
  if (llvm::none_of(program.ops, isCall))
    return;
  calls = std::make_unique<Requests>(program, ChannelRules());
  endOf = calls->op;
  for (OpId id = 0; id < program.size(); ++id)
    if (program.ops[id].isWait() && calls->joins(program.ops[id])) {
      if (const RequestId call = calls->waits[waitOps.size()]; call != noRequest)
        endOf[call] = id;
      waitOps.push_back(id);
    }
}

Bindings::~Bindings() = default;

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
    if (edge.kind != EdgeKind::Activation && edge.kind != EdgeKind::Gradient)
      continue; // made earlier on the same device: program order is never before it
    const int64_t transfer = transferOf(program, costs, program.ops[edge.from], op.stage);
    consider({edge.from, edge.kind, timeline.end[edge.from] + transfer, transfer}, best);
  }
}

/// The joint call that `op` is, or waits for.
RequestId Bindings::callOf(OpId op) const {
  if (!calls || !calls->joins(program.ops[op]))
    return noRequest;
  if (!program.ops[op].isWait())
    return calls->of(op);
  return calls->waits[static_cast<size_t>(llvm::lower_bound(waitOps, op) - waitOps.begin())];
}

llvm::SmallVector<OpId, 4> Bindings::jointEnds(OpId op) const {
  llvm::SmallVector<OpId, 4> ends;
  const RequestId call = program.ops[op].isWait() ? noRequest : callOf(op);
  if (call == noRequest)
    return ends;
  for (RequestId member : calls->callsOf(calls->direction[call]))
    ends.push_back(endOf[member]);
  return ends;
}

void Bindings::considerJoint(OpId op, Binding &best) const {
  const RequestId call = callOf(op);
  if (call == noRequest || program.ops[op].isStarted())
    return;
  for (RequestId member : calls->callsOf(calls->direction[call]))
    if (OpId before = previous(calls->op[member]); before != noOp && calls->op[member] != op)
      consider({before, EdgeKind::Contribution, timeline.end[before], 0}, best);
}

Binding Bindings::of(OpId first) const {
  Binding best;
  if (OpId before = previous(first); before != noOp)
    best = {before, EdgeKind::Order, timeline.end[before], 0};
  if (events)
    events->consider(first, best);
  // Else what the ops need was received or made before, on this device.
  for (OpId op = first, end = program.groupEnd(first); op != end && !events; ++op) {
    considerInputs(program.ops[op], best);
    considerJoint(op, best);
  }
  if (best.op != noOp)
    best.op = overlapBegin(best.op);
  return best;
}

} // namespace sluice
