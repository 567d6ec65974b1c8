#include "Timeline/Transfers.h"

#include "Events/Requests.h"
#include "Timeline/MessageTime.h"
#include "Timeline/SimulateEvents.h"

namespace sluice {

static Transfer transferBetween(const Program &program, const CostModel &costs, const Message &message,
                                OpId from, OpId to) {
  Transfer transfer;
  transfer.from = from;
  transfer.to = to;
  transfer.fromDevice = program.deviceOf(message.from, message.microbatch);
  transfer.toDevice = program.deviceOf(message.to, message.microbatch);
  transfer.isGradient = message.isGradient;
  const Route *route = routeOf(program, costs, message);
  transfer.link = route ? route->link : noLink;
  transfer.lane = route ? route->lane : noLane;
  transfer.bytes = bytesOf(program, costs, message);
  return transfer;
}

/// Ready at `ready`, as `message` passes its link; over a shared one it has arrived at `arrived`.
static void time(const Program &program, const CostModel &costs, const Message &message, int64_t ready,
                 int64_t arrived, Transfer &transfer) {
  const Route *route = sharedRouteOf(program, costs, message);
  const int64_t alone = transferOf(program, costs, message);
  transfer.ready = transfer.begin = ready;
  transfer.end = route ? arrived : ready + alone;
  if (route && costs.links[route->link].sharing == Sharing::Fifo)
    transfer.begin = arrived - alone; // it has the link to itself
}

static void visitWritten(const Program &program, const CostModel &costs, const Timeline &timeline,
                         llvm::function_ref<void(const Transfer &)> visit) {
  const ChannelRules rules = timelineRules(costs);
  const Requests requests(program, rules);
  for (RequestId r = 0; r < requests.size(); ++r) {
    if (requests.isCall(r) || !requests.isSend(r))
      continue;
    const OpId send = requests.op[r];
    const Message message = messageOf(program, send);
    Transfer transfer = transferBetween(program, costs, message, send, requests.op[requests.partner(r)]);
    const bool isShared = !timeline.sent.empty() && timeline.sent[send] >= 0;
    const int64_t ready = isShared               ? timeline.sent[send]
                          : rules.isRendezvous() ? timeline.met[send]
                                                 : timeline.done[send];
    time(program, costs, message, ready, isShared ? timeline.arrived[send] : 0, transfer);
    visit(transfer);
  }
}

void forEachTransfer(const Program &program, const ProgramIndex &index, const CostModel &costs,
                     const Timeline &timeline, llvm::function_ref<void(const Transfer &)> visit) {
  if (program.isExplicit)
    return visitWritten(program, costs, timeline, visit);
  for (OpId id = 0; id < program.size(); ++id) {
    const Op &op = program.ops[id];
    auto send = [&](uint32_t toStage, bool isGradient) {
      const OpId consumer =
          isGradient ? index.backward(toStage, op.microbatch) : index.forward(toStage, op.microbatch);
      const Message message{op.stage, toStage, op.microbatch, isGradient};
      Transfer transfer = transferBetween(program, costs, message, id, consumer);
      if (consumer == noOp || transfer.fromDevice == transfer.toDevice)
        return;
      time(program, costs, message, timeline.end[id], arrivalOf(program, costs, timeline, id, toStage),
           transfer);
      visit(transfer);
    };
    const bool isForward = op.kind == OpKind::Forward, isGradient = op.makesGradient();
    if (isForward && op.stage + 1u < program.stages)
      send(op.stage + 1u, false);
    if (isGradient && op.stage > 0)
      send(op.stage - 1u, true);
    for (const SkipEdge &skip : program.skips) {
      if (isForward && skip.from == op.stage)
        send(skip.to, false);
      if (isGradient && skip.to == op.stage && skip.hasGradient)
        send(skip.from, true);
    }
  }
}

} // namespace sluice
