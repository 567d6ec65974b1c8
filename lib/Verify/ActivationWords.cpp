#include "Verify/ActivationWords.h"

#include <fmt/format.h>

namespace sluice {

OpId lastBefore(const VerifyContext &context, OpId id, llvm::function_ref<bool(const Op &)> isWanted) {
  const Program &program = context.program;
  const Op &op = program.ops[id];
  const OpId begin = program.deviceBegin[program.deviceOf(id)];
  for (OpId at = id; at-- > begin;) {
    const Op &before = program.ops[at];
    if (before.hasMicrobatch() && before.stage == op.stage && before.microbatch == op.microbatch &&
        isWanted(before))
      return at;
  }
  return noOp;
}

static bool keepsInput(const Op &op) {
  return (op.kind == OpKind::Forward || op.kind == OpKind::Drop) && op.has(KeepInput);
}

/// Of a kept activation: by a forward, a recompute or a reload.
static bool makesWhole(const Op &op) {
  return op.kind == OpKind::Forward || op.kind == OpKind::Recompute || op.kind == OpKind::Reload;
}

Loss lossOf(const VerifyContext &context, const Fault &fault, llvm::StringRef preposition) {
  auto last = [&](llvm::function_ref<bool(const Op &)> isWanted) {
    return lastBefore(context, fault.op, isWanted);
  };
  auto where = [&](OpId op) {
    bool hasLine = op != noOp && context.sources && context.program.spanOf(op).isValid();
    return hasLine ? atLine(context, op, fault.op, preposition) : "";
  };
  switch (static_cast<Activation>(fault.cause)) {
  case Activation::None:
    return {"not made yet", "its forward stands only here",
            context.index.forward(fault.stage, fault.microbatch)};
  case Activation::Input: {
    OpId op = last(keepsInput);
    return {"kept as input only" + where(op), "only the input is kept here", op};
  }
  case Activation::Gone: {
    OpId op = last([](const Op &o) {
      return o.kind == OpKind::Drop || (o.kind == OpKind::Forward && o.has(KeepNothing));
    });
    bool isDropped = op != noOp && context.program.ops[op].kind == OpKind::Drop;
    return {(isDropped ? "dropped" : "not kept") + where(op),
            isDropped ? "it is dropped here" : "nothing is kept here", op};
  }
  case Activation::Half:
  case Activation::Done: {
    OpId op = last([](const Op &o) { return o.makesGradient(); });
    return {"used" + where(op), "it is used here", op};
  }
  case Activation::Saved: {
    OpId op = last(makesWhole);
    return {"on the device" + where(op), "it is on the device from here on", op};
  }
  case Activation::Host: {
    OpId op = last([](const Op &o) { return o.kind == OpKind::Offload && !o.isWait(); });
    // The input of a recompute *was* moved, an activation *is* on the host.
    return {(preposition == "at" ? "moved to the host" : "on the host") + where(op),
            "it goes to host memory here", op};
  }
  case Activation::Leaving:
  case Activation::Coming: {
    const OpKind kind =
        static_cast<Activation>(fault.cause) == Activation::Leaving ? OpKind::Offload : OpKind::Reload;
    OpId op = last([&](const Op &o) { return o.kind == kind && o.isStarted(); });
    return {"in flight" + where(op), "the transfer starts here", op};
  }
  }
  return {};
}

std::string opOf(OpKind kind, const Fault &fault) {
  return str(Op{kind, 0, static_cast<uint16_t>(fault.stage), fault.microbatch});
}

} // namespace sluice
