#include "Events/Completion.h"

#include "IR/CostModel.h"
#include "Passes/PostedProgram.h"

namespace sluice {

bool completesUnder(const Program &program, const ChannelRules &rules) {
  const Requests requests(program, rules);
  return Execution(requests, rules).run();
}

std::optional<WaitCycle> stuckUnder(const Program &program, const ChannelRules &rules) {
  const Requests requests(program, rules);
  Execution execution(requests, rules);
  if (execution.run())
    return std::nullopt;
  return shortestWaitCycle(requests, rules, execution);
}

runtime::ChannelModels verifiedModels(const Program &program, const CostModel &costs) {
  std::optional<Program> posted;
  if (!program.isExplicit && costs.communication != "just_in_time")
    return {true, true, true, true, true};
  if (!program.isExplicit || program.receivesWaitAtUse)
    posted = postedProgram(program, ProgramIndex(program), costs);
  const Program &run = posted ? *posted : program;
  const ChannelRules::Key key = costs.channels.key;
  return {.unbounded = completesUnder(run, {.key = key}),
          .eager = completesUnder(run, {.depth = 1, .key = key}),
          .rendezvous = completesUnder(run, {.depth = 0, .key = key}),
          .rendezvousPair = completesUnder(run, {.depth = 0, .key = ChannelRules::Key::Pair}),
          .rendezvousDevice = completesUnder(run, *channelRulesNamed("nccl"))};
}

uint32_t leastDepth(const Program &program, ChannelRules rules) {
  auto completes = [&](uint32_t depth) {
    rules.depth = depth;
    return completesUnder(program, rules);
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
