#include "Passes/BackwardHalves.h"

#include "Passes/Rewrite.h"

#include <algorithm>

namespace sluice {

static bool isAlone(const Op &op) { return !op.has(OverlapFirst) && !op.has(OverlapFollower); }

static Op as(OpKind kind, const Op &op) { return {kind, op.flags, op.stage, op.microbatch}; }

Program mergeHalves(const Program &program) {
  auto isPair = [&](OpId half, OpId end) {
    if (half + 1 >= end)
      return false;
    const Op &input = program.ops[half], &weight = program.ops[half + 1];
    return input.kind == OpKind::BackwardInput && weight.kind == OpKind::BackwardWeight &&
           input.stage == weight.stage && input.microbatch == weight.microbatch && isAlone(input) &&
           isAlone(weight);
  };
  Rewriter writer(program, program.size());
  for (uint32_t d = 0; d < program.devices; ++d) {
    writer.beginDevice();
    const OpId end = program.deviceBegin[d + 1];
    for (OpId op = program.deviceBegin[d]; op < end; ++op) {
      if (!isPair(op, end)) {
        writer.copy(op);
        continue;
      }
      writer.insert(as(OpKind::Backward, program.ops[op]), op);
      ++op;
    }
  }
  return writer.take();
}

Program splitBackwards(const Program &program) {
  auto isSplit = [](const Op &op) { return op.kind == OpKind::Backward && isAlone(op); };
  Rewriter writer(program, program.size() + static_cast<size_t>(std::ranges::count_if(program.ops, isSplit)));
  for (uint32_t d = 0; d < program.devices; ++d) {
    writer.beginDevice();
    for (OpId op = program.deviceBegin[d]; op < program.deviceBegin[d + 1]; ++op) {
      if (!isSplit(program.ops[op])) {
        writer.copy(op);
        continue;
      }
      writer.insert(as(OpKind::BackwardInput, program.ops[op]), op);
      writer.insert(as(OpKind::BackwardWeight, program.ops[op]), op);
    }
  }
  return writer.take();
}

} // namespace sluice
