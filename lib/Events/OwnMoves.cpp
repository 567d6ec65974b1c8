#include "Events/OwnMoves.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

namespace sluice {

int64_t movingTime(const CostModel &costs, const Op &op) {
  Op blocking = op;
  blocking.flags &= static_cast<uint8_t>(~(Started | Waits));
  return durationOf(costs, blocking);
}

static bool isCollective(const Op &op) {
  return op.kind == OpKind::Reduce || op.kind == OpKind::Unshard || op.kind == OpKind::ReduceTied ||
         (op.kind == OpKind::Norm && !op.has(Local));
}

bool hasMovingTimes(const Program &program, const CostModel &costs) {
  auto takesTime = [](const std::vector<int64_t> &times) {
    return llvm::any_of(times, [](int64_t time) { return time != 0; });
  };
  if (!takesTime(costs.reduce) && !takesTime(costs.unshard) && !takesTime(costs.reduceTied) &&
      !takesTime(costs.offload.all()) && !takesTime(costs.reload.all()))
    return false;
  return llvm::any_of(program.ops, [&](const Op &op) {
    return (isCollective(op) || isHostMove(op)) && movingTime(costs, op) != 0;
  });
}

bool isOwnMove(const Op &op, const Requests *calls) {
  return isHostMove(op) || (isCollective(op) && !(calls && calls->joins(op)));
}

std::vector<AwaitedMove> awaitedMoves(const Program &program, const Requests *calls) {
  std::vector<AwaitedMove> awaited;
  using Name = std::pair<uint32_t, uint32_t>;
  llvm::DenseMap<Name, std::vector<OpId>> started; // without a wait yet, the first last
  for (uint32_t device = 0; device < program.devices; ++device) {
    started.clear();
    llvm::DenseMap<Name, size_t> taken;
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
      const Op &op = program.ops[id];
      if ((!op.isStarted() && !op.isWait()) || !isOwnMove(op, calls))
        continue;
      const Name name(static_cast<uint32_t>(op.kind) << 16 | op.stage, op.microbatch);
      std::vector<OpId> &open = started[name];
      if (op.isStarted()) {
        open.push_back(id);
        continue;
      }
      size_t &next = taken[name];
      awaited.push_back({id, next < open.size() ? open[next] : noOp});
      next += next < open.size();
    }
  }
  return awaited;
}

OwnMoves::OwnMoves(const Program &program, const CostModel &costs, const Requests *calls, Lanes *lanes)
    : met(program.size(), -1), done(program.size(), -1), program(program), costs(costs), calls(calls),
      lanes(lanes), awaited(awaitedMoves(program, calls)), queueFree(program.devices),
      standsFor(program.devices, noOp) {
  for (uint32_t device = 0; device < program.devices; ++device) {
    auto first = llvm::partition_point(
        awaited, [&](const AwaitedMove &each) { return each.wait < program.deviceBegin[device]; });
    nextWait.push_back(static_cast<uint32_t>(first - awaited.begin()));
  }
}

int64_t OwnMoves::plus(int64_t a, int64_t b) {
  int64_t sum;
  if (!__builtin_add_overflow(a, b, &sum))
    return sum;
  overflowed = true;
  return std::numeric_limits<int64_t>::max();
}

void OwnMoves::runCall(uint32_t device, OpId op, int64_t clock) {
  met[op] = std::max(clock, queueFree[device]);
  done[op] = queueFree[device] = plus(met[op], movingTime(costs, program.ops[op]));
}

void OwnMoves::runHostMove(uint32_t device, OpId op, int64_t clock) {
  const int64_t time = movingTime(costs, program.ops[op]);
  if (!costs.hostRoutes.empty()) {
    const Route &route = costs.hostRoutes[2 * device + (program.ops[op].kind == OpKind::Reload)];
    if (lanes && route.lane != noLane) {
      lanes->join(route.lane, clock, time - route.latency,
                  static_cast<uint64_t>(op) << 16 | program.ops[op].stage);
      return;
    }
  }
  met[op] = clock;
  done[op] = plus(clock, time);
}

bool OwnMoves::run(uint32_t device, OpId op, int64_t &clock) {
  const Op &entry = program.ops[op];
  OpId awaits = op;
  if (entry.isWait()) {
    awaits = awaited[nextWait[device]++].start;
    if (awaits == noOp)
      return true; // started nowhere, which is a finding: nothing to wait for
  } else if (isHostMove(entry)) {
    runHostMove(device, op, clock);
  } else {
    runCall(device, op, clock);
  }
  if (entry.isStarted())
    return true;
  if (done[awaits] < 0) {
    standsFor[device] = awaits;
    return false;
  }
  clock = std::max(clock, done[awaits]);
  return true;
}

uint32_t OwnMoves::settle(uint32_t device, OpId op, int64_t begin, int64_t end) {
  met[op] = begin;
  done[op] = plus(end, costs.hostRoutes[2 * device + (program.ops[op].kind == OpKind::Reload)].latency);
  if (standsFor[device] != op)
    return noDevice;
  standsFor[device] = noOp;
  return device;
}

} // namespace sluice
