#include "Emit/Palette.h"

namespace sluice {

static constexpr std::array<LookInfo, lookCount> looks = {
    {{" ", " ", 0, 0, 0, "idle"},
     {"─", "-", 74, 0x5cafe6, 0xb3d9f5, "forward"},
     {"█", "#", 214, 0xeba52a, 0xf9d890, "backward"},
     {"▓", "=", 209, 0xe0703a, 0xf4b391, "backward_input"},
     {"░", "+", 78, 0x2fae84, 0x8fdac0, "backward_weight"},
     {"≈", "~", 176, 0xcc79a7, 0xe8bcd6, "recompute"},
     {"▚", "&", 227, 0xe8dc3c, 0xf7f2b2, "overlap"},
     {"◆", "U", 245, 0x565e66, 0x7b838b, "update"},
     {"╍", "R", 137, 0x78382b, 0x9a5444, "collective"},
     {"·", ".", 67, 0x0b4796, 0x1f62b4, "transfer"},
     {"↕", "O", 97, 0x7550a0, 0x9878bd, "offload, reload"}}};

const LookInfo &info(Look look) { return looks[static_cast<unsigned>(look)]; }

Look lookOf(const Op &op) {
  switch (op.kind) {
  case OpKind::Forward:
    return Look::Forward;
  case OpKind::Backward:
    return Look::Backward;
  case OpKind::BackwardInput:
    return Look::BackwardInput;
  case OpKind::BackwardWeight:
    return Look::BackwardWeight;
  case OpKind::Recompute:
    return Look::Recompute;
  case OpKind::Offload:
  case OpKind::Reload:
    return Look::Offload;
  case OpKind::SendActivation:
  case OpKind::RecvActivation:
  case OpKind::SendGradient:
  case OpKind::RecvGradient:
    return Look::Transfer;
  case OpKind::Update:
    return Look::Update;
  case OpKind::Reduce:
  case OpKind::Unshard:
  case OpKind::ReduceTied:
  case OpKind::Norm:
    return Look::Collective;
  default:
    return Look::Idle;
  }
}

Look lookOf(const Program &program, OpId first, OpId end) {
  return end - first > 1 ? Look::Overlap : lookOf(program.ops[first]);
}

uint32_t mix(uint32_t color, uint32_t with, unsigned share) {
  uint32_t mixed = 0;
  for (unsigned shift : {16u, 8u, 0u}) {
    const uint32_t a = color >> shift & 255, b = with >> shift & 255;
    mixed |= (a * (100 - share) + b * share + 50) / 100 << shift;
  }
  return mixed;
}

uint32_t shadeOf(Look look, unsigned rank, unsigned count) {
  return count < 2 ? info(look).deep : mix(info(look).deep, info(look).pale, 100 * rank / (count - 1));
}

} // namespace sluice
