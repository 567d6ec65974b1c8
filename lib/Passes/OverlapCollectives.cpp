#include "Passes/OverlapCollectives.h"

#include "Passes/Rewrite.h"

#include "llvm/ADT/STLExtras.h"

namespace sluice {

namespace {

/// A reduction under way, and the op that it was.
struct UnderWay {
  uint16_t stage;
  OpId reduce;
};

/// Whether `op` cannot go on before the reduction of `stage` is done.
bool needs(const Program &program, const Op &op, uint32_t stage) {
  switch (op.kind) {
  case OpKind::Norm:
    return true;
  case OpKind::ReduceTied:
    return !op.isWait() && llvm::is_contained(program.ties[op.microbatch].stages, stage);
  case OpKind::Reduce:
    return !op.isWait() && op.stage == stage;
  case OpKind::Update:
  case OpKind::Zero:
  case OpKind::Scale:
    return op.stage == stage;
  default:
    return op.contributes() && op.stage == stage;
  }
}

Op marked(Op reduce, OpFlag flag) {
  reduce.flags |= flag;
  return reduce;
}

} // namespace

Program overlapCollectives(const Program &program) {
  const auto isBlocking = [](const Op &op) {
    return op.kind == OpKind::Reduce && !op.isStarted() && !op.isWait();
  };
  Rewriter writer(program, program.size() + static_cast<size_t>(llvm::count_if(program.ops, isBlocking)));
  std::vector<UnderWay> open;
  for (uint32_t device = 0; device < program.devices; ++device) {
    writer.beginDevice();
    const OpId last = program.deviceBegin[device + 1];
    auto wait = [&](const UnderWay &each) {
      writer.insert(marked(program.ops[each.reduce], Waits), each.reduce);
    };
    for (OpId begin = program.deviceBegin[device]; begin < last;) {
      const OpId end = std::min(program.groupEnd(begin), last);
      llvm::erase_if(open, [&](const UnderWay &each) {
        const bool isNeeded = llvm::any_of(llvm::ArrayRef(program.ops).slice(begin, end - begin),
                                           [&](const Op &op) { return needs(program, op, each.stage); });
        if (isNeeded)
          wait(each);
        return isNeeded;
      });
      if (isBlocking(program.ops[begin])) {
        writer.insert(marked(program.ops[begin], Started), begin);
        open.push_back({program.ops[begin].stage, begin});
      } else {
        writer.copy(begin, end);
      }
      begin = end;
    }
    llvm::for_each(open, wait);
    open.clear();
  }
  return writer.take();
}

} // namespace sluice
