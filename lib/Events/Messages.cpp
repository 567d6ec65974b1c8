#include "Events/Messages.h"

#include <fmt/format.h>

namespace sluice {

Message messageOf(const Program &program, OpId id) {
  const Op &op = program.ops[id];
  const uint32_t peer = program.peerStageOf(id);
  const bool isGradient = op.kind == OpKind::SendGradient || op.kind == OpKind::RecvGradient;
  return op.isSend() ? Message{op.stage, peer, op.microbatch, isGradient}
                     : Message{peer, op.stage, op.microbatch, isGradient};
}

static bool isSkip(const Message &message) {
  return message.isGradient ? message.to + 1 != message.from : message.from + 1 != message.to;
}

Op sendOf(const Message &message) {
  return {message.isGradient ? OpKind::SendGradient : OpKind::SendActivation,
          static_cast<uint8_t>(isSkip(message) ? NamesPeer : 0), static_cast<uint16_t>(message.from),
          message.microbatch};
}

Op receiveOf(const Message &message) {
  return {message.isGradient ? OpKind::RecvGradient : OpKind::RecvActivation,
          static_cast<uint8_t>(isSkip(message) ? NamesPeer : 0), static_cast<uint16_t>(message.to),
          message.microbatch};
}

std::string sendText(const Message &message) {
  return str(sendOf(message)) + (isSkip(message) ? fmt::format(" to {}", message.to) : "");
}

std::string receiveText(const Message &message) {
  return str(receiveOf(message)) + (isSkip(message) ? fmt::format(" from {}", message.from) : "");
}

MessageEdges::MessageEdges(const Program &program) : stages(program.stages), skips(program.skips) {}

uint32_t MessageEdges::ofSkip(uint32_t low, uint32_t high, bool isGradient) const {
  for (uint32_t i = 0; i < skips.size(); ++i)
    if (skips[i].from == low && skips[i].to == high)
      return isGradient && !skips[i].hasGradient ? none : 2 * (stages + i) + isGradient;
  return none;
}

} // namespace sluice
