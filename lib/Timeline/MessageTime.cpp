#include "Timeline/MessageTime.h"

#include "Timeline/SimulateEvents.h"

namespace sluice {

static MessageTime over(const Route *route, int64_t time) {
  return route ? MessageTime{route->link, route->lane, route->latency, time - route->latency}
               : MessageTime{noLink, noLane, 0, time};
}

MessageTime messageTime(const Program &program, const CostModel &costs, const Message &message) {
  return over(routeOf(program, costs, message), transferOf(program, costs, message));
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
