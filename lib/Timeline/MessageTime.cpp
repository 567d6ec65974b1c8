#include "Timeline/MessageTime.h"

#include "Timeline/SimulateEvents.h"

#include <algorithm>

namespace sluice {

static MessageTime over(const Route *route, int64_t time) {
  return route ? MessageTime{route->link, route->lane, route->latency, time - route->latency}
               : MessageTime{noLink, noLane, 0, time};
}

MessageTime messageTime(const Program &program, const CostModel &costs, const Message &message) {
  return over(routeOf(program, costs, message), transferOf(program, costs, message));
}

int64_t bytesOf(const Program &program, const CostModel &costs, const Message &message) {
  const uint32_t low = std::min(message.from, message.to), high = std::max(message.from, message.to);
  if (high == low + 1)
    return costs.boundary.at(low, message.microbatch);
  for (size_t i = 0; i < costs.skipBoundary.size(); ++i)
    if (program.skips[i].from == low && program.skips[i].to == high)
      return costs.skipBoundary[i].at(0, message.microbatch);
  return 0;
}

MessageTime hostTime(const CostModel &costs, const Op &op, uint32_t device) {
  const bool isBack = op.kind == OpKind::Reload;
  const StageTable<int64_t> &times = isBack ? costs.reload : costs.offload;
  return over(costs.hostRoutes.empty() ? nullptr : &costs.hostRoutes[2 * device + isBack],
              times.empty() ? 0 : times.at(op.stage, op.microbatch));
}

llvm::StringRef linkName(const CostModel &costs, uint32_t link) {
  return link < costs.links.size() ? llvm::StringRef(costs.links[link].name) : "transfers";
}

} // namespace sluice
