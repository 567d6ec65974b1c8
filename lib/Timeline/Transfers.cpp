#include "Timeline/Transfers.h"

#include "Events/Requests.h"
#include "Timeline/SimulateEvents.h"

namespace sluice {

static int64_t bytesOf(const Program &program, const CostModel &costs, const Message &message) {
  const uint32_t low = std::min(message.from, message.to), high = std::max(message.from, message.to);
  if (high == low + 1)
    return costs.boundary.at(low, message.microbatch);
  for (size_t i = 0; i < costs.skipBoundary.size(); ++i)
    if (program.skips[i].from == low && program.skips[i].to == high)
      return costs.skipBoundary[i].at(0, message.microbatch);
  return 0;
}

static Route routeOf(const Program &program, const CostModel &costs, const Message &message) {
  if (costs.activationRoute.empty())
    return {};
  const uint32_t low = std::min(message.from, message.to), high = std::max(message.from, message.to);
  uint32_t route = noRoute;
  if (high == low + 1)
    route = (message.isGradient ? costs.gradientRoute : costs.activationRoute)
                .at(message.from, message.microbatch);
  for (size_t i = 0; high != low + 1 && i < costs.skipRoute.size(); ++i)
    if (program.skips[i].from == low && program.skips[i].to == high)
      route = costs.skipRoute[i].at(message.isGradient, message.microbatch);
  return route == noRoute ? Route() : costs.routes[route];
}

static Transfer transferBetween(const Program &program, const CostModel &costs, const Message &message,
                                OpId from, OpId to) {
  Transfer transfer;
  transfer.from = from;
  transfer.to = to;
  transfer.fromDevice = program.deviceOf(message.from, message.microbatch);
  transfer.toDevice = program.deviceOf(message.to, message.microbatch);
  transfer.isGradient = message.isGradient;
  const Route route = routeOf(program, costs, message);
  transfer.link = route.link;
  transfer.lane = route.lane;
  transfer.bytes = bytesOf(program, costs, message);
  return transfer;
}

static void visitWritten(const Program &program, const CostModel &costs, const Timeline &timeline,
                         llvm::function_ref<void(const Transfer &)> visit) {
  const Requests requests(program, costs.channels);
  for (RequestId r = 0; r < requests.size(); ++r) {
    if (requests.isCall(r) || !requests.isSend(r))
      continue;
    const OpId send = requests.op[r];
    const Message message = messageOf(program, send);
    Transfer transfer = transferBetween(program, costs, message, send, requests.op[requests.partner(r)]);
    transfer.ready = transfer.begin =
        costs.channels.isRendezvous() ? timeline.met[send] : timeline.done[send];
    transfer.end = transfer.begin + transferOf(program, costs, message);
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
      transfer.ready = transfer.begin = timeline.end[id];
      transfer.end = transfer.begin + transferOf(program, costs, message);
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
