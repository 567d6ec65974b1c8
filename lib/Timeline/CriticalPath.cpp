#include "Timeline/CriticalPath.h"

#include <algorithm>

namespace sluice {

// One that computes, if one ends the step: else what a device does or waits for at its end.
static OpId lastOp(const Program &program, const Timeline &timeline) {
  for (uint32_t device = 0; device < program.devices; ++device)
    for (OpId op = program.deviceBegin[device + 1]; op > program.deviceBegin[device]; --op)
      if (program.ops[op - 1].isCompute()) {
        if (timeline.end[op - 1] == timeline.makespan)
          return op - 1;
        break;
      }
  if (program.isExplicit || timeline.makespan > 0)
    for (OpId op = 0; op < program.size(); ++op)
      if (timeline.end[op] == timeline.makespan)
        return op;
  return noOp;
}

std::vector<CriticalStep> criticalPath(const Program &program, const ProgramIndex &index,
                                       const CostModel &costs, const Timeline &timeline) {
  std::vector<CriticalStep> path;
  Bindings bindings(program, index, costs, timeline);
  OpId op = lastOp(program, timeline);
  while (op != noOp) {
    while (program.ops[op].has(OverlapFollower))
      --op;
    Binding binding = bindings.of(op);
    path.push_back(
        {op, bindings.start(op), timeline.end[op], binding.kind, binding.transfer, bindings.isMove(op)});
    op = binding.op;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

CriticalSummary summarize(llvm::ArrayRef<CriticalStep> path) {
  CriticalSummary summary;
  for (const CriticalStep &step : path) {
    summary.ops += step.end != step.start;
    (step.isMove ? summary.transfer : summary.compute) += step.end - step.start;
    summary.transfer += step.transfer;
  }
  return summary;
}

} // namespace sluice
