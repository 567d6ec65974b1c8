#include "Events/Completion.h"

namespace sluice {

std::optional<WaitCycle> stuckUnder(const Program &program, const ChannelRules &rules) {
  const Requests requests(program, rules);
  Execution execution(requests, rules);
  if (execution.run())
    return std::nullopt;
  return shortestWaitCycle(requests, rules, execution);
}

uint32_t leastDepth(const Program &program, ChannelRules rules) {
  auto completes = [&](uint32_t depth) {
    rules.depth = depth;
    const Requests requests(program, rules);
    return Execution(requests, rules).run();
  };
  uint32_t enough = 1;
  while (enough < program.size() && !completes(enough))
    enough *= 2;
  uint32_t tooFew = enough / 2;
  while (tooFew + 1 < enough) {
    const uint32_t middle = tooFew + (enough - tooFew) / 2;
    (completes(middle) ? enough : tooFew) = middle;
  }
  return enough;
}

} // namespace sluice
