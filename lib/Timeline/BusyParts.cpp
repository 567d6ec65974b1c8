#include "Timeline/BusyParts.h"

#include "llvm/ADT/STLExtras.h"

namespace sluice {

bool hasOtherWork(const CostModel &costs) {
  auto takesTime = [](llvm::ArrayRef<int64_t> times) {
    return llvm::any_of(times, [](int64_t time) { return time != 0; });
  };
  return costs.transfersBlock || takesTime(costs.update) || takesTime(costs.reduce) ||
         takesTime(costs.unshard) || takesTime(costs.reduceTied) || takesTime(costs.offload.all()) ||
         takesTime(costs.reload.all());
}

/// Where the time of an op of this kind counts; null of ops that take none.
static int64_t *partOf(BusyParts &parts, OpKind kind) {
  switch (kind) {
  case OpKind::Forward:
  case OpKind::Backward:
  case OpKind::BackwardInput:
  case OpKind::BackwardWeight:
    return &parts.compute;
  case OpKind::Recompute:
    return &parts.recompute;
  case OpKind::Update:
    return &parts.update;
  case OpKind::Reduce:
  case OpKind::ReduceTied:
  case OpKind::Unshard:
    return &parts.collectives;
  case OpKind::SendActivation:
  case OpKind::RecvActivation:
  case OpKind::SendGradient:
  case OpKind::RecvGradient:
    return &parts.transfers;
  case OpKind::Offload:
  case OpKind::Reload:
    return &parts.host;
  default:
    return nullptr;
  }
}

static BusyParts partsOf(const Program &program, const CostModel &costs, const Timeline &timeline,
                         uint32_t device) {
  BusyParts parts;
  for (OpId op = program.deviceBegin[device]; op < program.deviceBegin[device + 1];) {
    const Op &first = program.ops[op];
    const OpId end = first.has(OverlapFirst) ? program.groupEnd(op) : op + 1;
    const bool isOccupied =
        first.isCommunication() ? costs.transfersBlock : !first.isStarted() && !first.isWait();
    if (int64_t *part = end - op > 1 ? &parts.compute : partOf(parts, first.kind); part && isOccupied)
      *part += timeline.end[op] - timeline.start(program, costs, op);
    op = end;
  }
  return parts;
}

std::vector<BusyParts> busyParts(const Program &program, const CostModel &costs, const Timeline &timeline,
                                 llvm::ArrayRef<DeviceTimes> times) {
  std::vector<BusyParts> result;
  const bool isMixed = hasOtherWork(costs);
  for (uint32_t device = 0; device < program.devices; ++device) {
    if (isMixed) {
      result.push_back(partsOf(program, costs, timeline, device));
      continue;
    }
    BusyParts parts;
    parts.compute = times[device].useful;
    parts.recompute = times[device].busy - times[device].useful;
    result.push_back(parts);
  }
  return result;
}

} // namespace sluice
