// 301 deadlock: written sends and receives over unbounded channels. A send never waits then, so only receives
// (and reductions) can, each for the place of its send in the program of another device.
#include "Verify/Faults.h"
#include "Verify/Messages.h"
#include "Verify/Order.h"

#include <fmt/format.h>

namespace sluice {

static void reportDeadlock(VerifyContext &context, const Cycle &cycle) {
  const Hop &hop = cycle[0], &next = cycle[1 % cycle.size()];
  const Op &stands = context.program.ops[hop.stands];
  FaultGroup group = {{Rule::Deadlock, 0, hop.device, stands.stage, stands.microbatch, hop.stands, noOp}};
  Finding &finding = report(context, group,
                            {{"op", str(stands)},
                             {"device", fmt::format("{}", hop.device)},
                             {"partner", opText(context, next.needed)},
                             {"blocker", opText(context, next.stands)},
                             {"other", fmt::format("{}", next.device)},
                             {"hops", fmt::format("{} hops", cycle.size())},
                             {"channel", "unbounded channels"},
                             {"key", name(context.costs.channels.key).str()}});
  noteHops(context, cycle, 0, finding);
  finding.fix.message = fmt::format("post {} before {} on device {}, or {} before {} on device {}",
                                    opText(context, next.needed), opText(context, next.stands), next.device,
                                    opText(context, hop.needed), str(stands), hop.device);
}

void verifyCompletion(VerifyContext &context, bool joinCollectives) {
  if (!context.program.isExplicit)
    return;
  ComputeOrder order(context.program, context.copies, joinCollectives, ComputeOrder::Follow::Messages);
  if (order.run())
    return;
  const Messages messages(context.program);
  Cycle cycle = shortestCycle(
      context.program,
      [&](uint32_t stage, uint32_t microbatch, bool isGradient) {
        return messages.send({isGradient, stage, microbatch});
      },
      context.copies, order);
  reportDeadlock(context, cycle);
  std::vector<Fault> faults;
  for (const Hop &hop : cycle)
    for (OpId id : {hop.stands, hop.needed})
      faults.push_back(
          {Rule::Deadlock, 0, hop.device, context.program.ops[id].stage, noMicrobatch, id, noOp});
  blame(context, faults);
}

} // namespace sluice
