#include "Driver/Compilation.h"

#include "Timeline/Balance.h"
#include "Timeline/BlockedWork.h"
#include "Timeline/MemoryFindings.h"

namespace sluice {

void checkCosts(Instance &instance, Diagnostics &diagnostics, const SourceManager &sources) {
  const Program &program = instance.program;
  checkBalance(program, instance.costs, diagnostics);
  const bool mayBlock = mayBlockWork(program, instance.costs);
  const bool hasMemory = hasMemoryQuestions(program, instance.costs);
  if ((!mayBlock && !hasMemory) || !addTimeline(instance, diagnostics))
    return;
  if (hasMemory)
    checkMemory(instance.timed(), instance.timedIndex(), instance.costs, *instance.timeline, diagnostics,
                &sources);
  if (mayBlock)
    checkBlockedWork(instance.timed(), instance.costs, *instance.timeline, diagnostics);
}

bool isAsked(Rule rule, Compilation::Depth depth) {
  if (rule == Rule::HeldTooLong || rule == Rule::UnbalancedDevices || rule == Rule::BlocksReadyWork)
    return depth == Compilation::Depth::Expectations;
  return rule != Rule::SpanWithBarrier || depth >= Compilation::Depth::Expectations;
}

} // namespace sluice
