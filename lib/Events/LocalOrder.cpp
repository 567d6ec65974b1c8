#include "Events/LocalOrder.h"

#include "Events/Messages.h"

#include "llvm/ADT/STLExtras.h"

namespace sluice {

static bool isSamePair(const Op &a, const Op &b) {
  return a.stage == b.stage && a.microbatch == b.microbatch;
}

/// One takes a buffer that the other has to give back first (703).
static bool shareBuffer(const Program &program, const Op &a, const Op &b) {
  auto takes = [](const Op &op) { return op.kind == OpKind::Forward || op.kind == OpKind::RecvActivation; };
  auto givesBack = [](const Op &op) {
    return op.makesGradient() || op.kind == OpKind::BackwardWeight || op.kind == OpKind::SendGradient;
  };
  const bool isHandedOn = (takes(a) && givesBack(b)) || (takes(b) && givesBack(a));
  return isHandedOn && a.stage == b.stage && a.microbatch != b.microbatch &&
         program.buffers.at(a.stage, a.microbatch) == program.buffers.at(b.stage, b.microbatch);
}

static bool holdsPost(const Program &program, OpId post, OpId other) {
  const Op &a = program.ops[post], &b = program.ops[other];
  if (b.isCommunication())
    return a.kind == b.kind && messageOf(program, post) == messageOf(program, other);
  if (!isSamePair(a, b))
    return false;
  switch (a.kind) {
  case OpKind::SendActivation:
    return b.kind == OpKind::Forward || b.kind == OpKind::Drop;
  case OpKind::RecvActivation:
    return b.kind == OpKind::Forward;
  default: // of the stage behind, or for the stage before
    return b.makesGradient();
  }
}

static bool isCall(const Op &op) {
  return op.kind == OpKind::Reduce || op.kind == OpKind::ReduceTied || op.kind == OpKind::Norm;
}

static bool concerns(const Program &program, const Op &call, uint32_t stage) {
  return call.kind == OpKind::ReduceTied ? llvm::is_contained(program.ties[call.microbatch].stages, stage)
                                         : call.stage == stage;
}

static bool holdsCall(const Program &program, const Op &call, const Op &other) {
  if (other.isCommunication())
    return false;
  if (call.kind == OpKind::Norm)
    return other.contributes() || other.kind == OpKind::Zero || other.kind == OpKind::Update ||
           other.kind == OpKind::Scale || isCall(other);
  if (other.kind != OpKind::ReduceTied)
    return other.kind != OpKind::Norm && concerns(program, call, other.stage);
  return llvm::any_of(program.ties[other.microbatch].stages,
                      [&](uint32_t stage) { return concerns(program, call, stage); });
}

bool mustKeepOrder(const Program &program, OpId a, OpId b) {
  const Op &first = program.ops[a], &second = program.ops[b];
  if (first.isCommunication() || second.isCommunication()) {
    if (!program.buffers.empty() && first.hasMicrobatch() && second.hasMicrobatch() &&
        shareBuffer(program, first, second))
      return true;
    return first.isCommunication() ? holdsPost(program, a, b) : holdsPost(program, b, a);
  }
  return (isCall(first) && holdsCall(program, first, second)) ||
         (isCall(second) && holdsCall(program, second, first));
}

} // namespace sluice
