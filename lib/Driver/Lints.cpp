#include "Driver/Compilation.h"

#include "Timeline/Balance.h"
#include "Timeline/MemoryFindings.h"

namespace sluice {

void checkCosts(Instance &instance, Diagnostics &diagnostics, const SourceManager &sources) {
  const Program &program = instance.program;
  checkBalance(program, instance.costs, diagnostics);
  if (!hasMemoryQuestions(program, instance.costs))
    return;
  instance.timeline = simulate(program, *instance.index, instance.costs, diagnostics);
  if (instance.timeline)
    checkMemory(program, *instance.index, instance.costs, *instance.timeline, diagnostics, &sources);
}

bool isAsked(Rule rule, Compilation::Depth depth) {
  if (rule == Rule::HeldTooLong || rule == Rule::UnbalancedDevices)
    return depth == Compilation::Depth::Expectations;
  return rule != Rule::SpanWithBarrier || depth >= Compilation::Depth::Expectations;
}

} // namespace sluice
