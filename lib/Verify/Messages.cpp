#include "Verify/Messages.h"

namespace sluice {

Message messageOf(const Op &op) {
  switch (op.kind) {
  case OpKind::RecvActivation:
    return {false, op.stage - 1u, op.microbatch};
  case OpKind::RecvGradient:
    return {true, op.stage + 1u, op.microbatch};
  default:
    return {op.kind == OpKind::SendGradient, op.stage, op.microbatch};
  }
}

Op partnerOf(const Op &op) {
  const Message message = messageOf(op);
  if (op.isSend())
    return {message.isGradient ? OpKind::RecvGradient : OpKind::RecvActivation, 0,
            static_cast<uint16_t>(message.user()), op.microbatch};
  return {message.isGradient ? OpKind::SendGradient : OpKind::SendActivation, 0,
          static_cast<uint16_t>(message.stage), op.microbatch};
}

std::optional<Message> inputOf(const Program &program, const Op &op) {
  if (op.kind == OpKind::Forward && op.stage > 0)
    return Message{false, op.stage - 1u, op.microbatch};
  if ((op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput) && op.stage + 1u < program.stages)
    return Message{true, op.stage + 1u, op.microbatch};
  return std::nullopt;
}

Messages::Messages(const Program &program) : stages(program.stages), microbatches(program.microbatches) {
  if (!program.isExplicit)
    return;
  sends.assign(2 * stages * microbatches, noOp);
  receives.assign(2 * stages * microbatches, noOp);
  for (uint32_t device = 0; device < program.devices; ++device)
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
      const Op &op = program.ops[id];
      if (!op.isCommunication())
        continue;
      const Message message = messageOf(op);
      const uint32_t peer = op.isSend() ? message.user() : message.stage;
      if (peer >= program.stages || program.deviceOf(peer, op.microbatch) == device) {
        lonely.push_back(id);
        continue;
      }
      OpId &end = (op.isSend() ? sends : receives)[indexOf(message)];
      if (end == noOp)
        end = id;
      else
        repeated.push_back(id);
    }
}

} // namespace sluice
