#include "Timeline/Binding.h"

#include "Events/OwnMoves.h"
#include "Timeline/EventBinding.h"
#include "Timeline/Flights.h"
#include "Timeline/SimulateEvents.h"

namespace sluice {

Bindings::Bindings(const Program &program, const ProgramIndex &index, const CostModel &costs,
                   const Timeline &timeline)
    : program(program), index(index), costs(costs), timeline(timeline) {
  const bool areMovesTimed = !timeline.met.empty() && hasMovingTimes(program, costs);
  auto isCall = [&](const Op &op) {
    return op.kind >= OpKind::ReduceTied || (op.kind == OpKind::Reduce && program.placement.rowCount() > 1);
  };
  if (program.isExplicit)
    events = std::make_unique<EventBindings>(program, costs, timeline);
  else if (llvm::any_of(program.ops, isCall))
    calls = std::make_unique<Requests>(program, ChannelRules());
  if (calls || areMovesTimed)
    flights = std::make_unique<Flights>(program, timeline, calls.get(), areMovesTimed,
                                        events ? &events->requests() : nullptr);
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
  if (candidate.arrival == best.arrival && candidate.op != noOp && best.op != noOp &&
      best.kind != EdgeKind::Order)
    wins = program.deviceOf(candidate.op) < program.deviceOf(best.op);
  if (wins)
    best = candidate;
}

void Bindings::considerInputs(const Op &op, Binding &best) const {
  for (const Edge &edge : inputsOf(program, index, op)) {
    if (edge.kind != EdgeKind::Activation && edge.kind != EdgeKind::Gradient)
      continue; // made earlier on the same device: program order is never before it
    const int64_t transfer =
        arrivalOf(program, costs, timeline, edge.from, op.stage) - timeline.end[edge.from];
    consider({edge.from, edge.kind, timeline.end[edge.from] + transfer, transfer}, best);
  }
}

bool Bindings::isMove(OpId op) const {
  return !timeline.met.empty() && occupiesFromMet(costs, program.ops[op]);
}

Binding Bindings::of(OpId first) const {
  Binding best;
  if (OpId before = previous(first); before != noOp)
    best = {before, EdgeKind::Order, timeline.end[before], 0};
  if (events)
    events->consider(first, best);
  // Else what the ops need was received or made before, on this device.
  for (OpId op = first, end = program.groupEnd(first); op != end && !events; ++op)
    considerInputs(program.ops[op], best);
  if (flights)
    if (const auto moved = flights->bindingOf(first))
      consider(*moved, best);
  if (best.op != noOp)
    best.op = overlapBegin(best.op);
  return best;
}

} // namespace sluice
