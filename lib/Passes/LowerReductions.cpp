#include "Passes/LowerReductions.h"

#include "Passes/Rewrite.h"

namespace sluice {

static bool isContribution(const Op &op) {
  return op.kind == OpKind::Backward || op.kind == OpKind::BackwardWeight;
}

Program lowerReductions(const Program &program) {
  Rewriter writer(program, program.size() + program.stages);
  std::vector<OpId> last(program.stages); // contribution of each stage on one device
  for (uint32_t d = 0; d < program.devices; ++d) {
    writer.beginDevice();
    const OpId first = program.deviceBegin[d], end = program.deviceBegin[d + 1];
    for (OpId op = first; op < end; ++op)
      if (isContribution(program.ops[op]))
        last[program.ops[op].stage] = op;
    OpId copied = first; // ops go over in long runs
    for (OpId begin = first; begin < end;) {
      const OpId stop = std::min(program.groupEnd(begin), end);
      if (program.ops[begin].kind == OpKind::Reduce) {
        writer.copy(copied, begin);
        copied = stop;
      }
      for (OpId op = begin; op < stop; ++op)
        if (isContribution(program.ops[op]) && last[program.ops[op].stage] == op) {
          writer.copy(copied, stop);
          copied = stop;
          writer.insert({OpKind::Reduce, 0, program.ops[op].stage, noMicrobatch}, op);
        }
      begin = stop;
    }
    writer.copy(copied, end);
  }
  return writer.take();
}

} // namespace sluice
