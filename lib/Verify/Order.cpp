// 302 cyclic-order.
#include "Verify/Order.h"

#include "Verify/Faults.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <fmt/format.h>

namespace sluice {

void assumeMissing(const Program &program, const ProgramIndex &index, ComputeOrder &order) {
  for (uint32_t s = 0; s < program.stages; ++s)
    for (uint32_t m = 0; m < program.microbatches; ++m) {
      if (index.forward(s, m) == noOp)
        order.assumeForward(s, m);
      if (index.backward(s, m) == noOp)
        order.assumeBackward(s, m);
    }
}

namespace {
/// `stands`, where one device stands, lacks the result of `needed` on another.
struct Wait {
  OpId stands, needed;
  uint32_t device;
};
} // namespace

/// What keeps a stuck device: results of other devices, or their arrival at the same collective.
static std::vector<Wait> waitsOf(const Program &program, const ProgramIndex &index, const ComputeOrder &order,
                                 uint32_t device) {
  std::vector<Wait> waits;
  const OpId front = order.fronts()[device];
  for (OpId id = front, end = program.groupEnd(front); id < end; ++id) {
    const Op &op = program.ops[id];
    for (const auto &[stage, microbatch, isBackward] : order.needsOf(op))
      if (isBackward ? order.lacksBackward(stage, microbatch, device)
                     : order.lacksForward(stage, microbatch, device))
        waits.push_back({id,
                         isBackward ? index.backward(stage, microbatch) : index.forward(stage, microbatch),
                         program.deviceOf(stage, microbatch)});
    if (!order.joins(op))
      continue;
    for (uint32_t other : order.membersOf(op)) {
      OpId call = order.fronts()[other];
      const OpId programEnd = program.deviceBegin[other + 1];
      // Counts are equal, so a call that has not been made stands further on.
      while (call != programEnd &&
             (program.ops[call].isWait() || !ComputeOrder::isSameCall(program.ops[call], op)))
        ++call;
      if (call != programEnd && call != order.fronts()[other])
        waits.push_back({id, call, other});
    }
  }
  return waits;
}

/// Breadth first from `start` back to itself, in fewer than `limit` hops; empty if there is no such way.
static Cycle cycleThrough(uint32_t start, llvm::ArrayRef<std::vector<Wait>> waits, size_t limit) {
  struct Visit {
    uint32_t device;
    size_t from;
    Wait by; // the wait that led here
  };
  std::vector<Visit> visits = {{start, 0, {noOp, noOp, start}}};
  llvm::DenseSet<uint32_t> seen;
  size_t levelEnd = 1;
  for (size_t at = 0, hops = 1; at < visits.size(); ++at) {
    if (at == levelEnd) {
      levelEnd = visits.size();
      ++hops;
    }
    if (hops >= limit)
      return {};
    for (const Wait &wait : waits[visits[at].device]) {
      if (wait.device != start) {
        if (seen.insert(wait.device).second)
          visits.push_back({wait.device, at, wait});
        continue;
      }
      Cycle cycle(hops);
      OpId stands = wait.stands;
      for (size_t hop = hops, back = at; hop-- > 0; back = visits[back].from) {
        cycle[hop] = {visits[back].device, stands, visits[back].by.needed};
        stands = visits[back].by.stands;
      }
      cycle[0].needed = wait.needed;
      return cycle;
    }
  }
  return {};
}

Cycle shortestCycle(const Program &program, const ProgramIndex &index, const ComputeOrder &order) {
  std::vector<std::vector<Wait>> waits(program.devices);
  for (uint32_t device = 0; device < program.devices; ++device)
    if (order.isStuck(device))
      waits[device] = waitsOf(program, index, order, device);
  Cycle best;
  for (uint32_t start = 0; start < program.devices; ++start)
    if (Cycle found = cycleThrough(start, waits, best.empty() ? program.devices + 1u : best.size());
        !found.empty())
      best = std::move(found);
  return best;
}

/// Whether two ops of one device are members of one overlap.
static bool shareOverlap(const Program &program, OpId a, OpId b) {
  OpId first = std::min(a, b), second = std::max(a, b);
  while (program.ops[first].has(OverlapFollower))
    --first;
  return second < program.groupEnd(first);
}

/// The cycle op by op: where each device stands, and behind what the next one has to come by.
void noteHops(const VerifyContext &context, const Cycle &cycle, size_t begin, Finding &finding) {
  for (size_t i = 0; i < cycle.size(); ++i) {
    const Hop &hop = cycle[(begin + i) % cycle.size()], &next = cycle[(begin + i + 1) % cycle.size()];
    const bool isUnderWay = context.program.ops[hop.stands].isStarted();
    noteOp(context, finding, hop.stands,
           fmt::format("device {} {}, which needs {} of device {}", hop.device,
                       isUnderWay ? "has " + opText(context, hop.stands) + " under way"
                                  : "stands at " + opText(context, hop.stands),
                       opText(context, next.needed), next.device));
    if (next.needed != next.stands)
      noteOp(context, finding, next.needed,
             fmt::format("{} {} {} on device {}", opText(context, next.needed),
                         shareOverlap(context.program, next.stands, next.needed) ? "is in one overlap with"
                                                                                 : "stands behind",
                         opText(context, next.stands), next.device));
  }
}

static void reportCycle(VerifyContext &context, const Cycle &cycle, bool joinCollectives) {
  // A device whose front is itself what its neighbour waits for has nothing in the wrong order.
  size_t at = 0;
  while (at + 1 < cycle.size() && cycle[at].stands == cycle[at].needed)
    ++at;
  const Hop &hop = cycle[at];
  const Op &stands = context.program.ops[hop.stands];
  FaultGroup group = {
      {Rule::CyclicOrder, 0, hop.device, stands.stage, stands.microbatch, hop.stands, hop.needed}};
  Finding &finding =
      report(context, group,
             {{"op", opText(context, hop.stands)},
              {"stands", shareOverlap(context.program, hop.stands, hop.needed) ? "is in one overlap with"
                                                                               : "stands before"},
              {"needed", opText(context, hop.needed)},
              {"device", fmt::format("{}", hop.device)}});
  noteHops(context, cycle, at, finding);
  std::string repair = repairOf(context, cycle, joinCollectives);
  finding.fix.message =
      repair.empty() ? "reorder the devices of this cycle; no repair of up to four moves was found" : repair;
}

void verifyOrder(VerifyContext &context) {
  // Ops on a wrong device have taken over the places that the order would be checked by.
  if (context.hasMisplacedOps)
    return;
  const bool joinCollectives = verifyCollectives(context);
  ComputeOrder order(context.program, context.copies, joinCollectives);
  if (context.hasErrors)
    assumeMissing(context.program, context.index, order);
  if (order.run())
    return context.hasErrors ? void() : verifyCompletion(context);
  Cycle cycle = shortestCycle(context.program, context.index, order);
  // A device that waits for a call or a start that never comes is no part of a cycle.
  assert((!cycle.empty() || context.hasErrors) && "every device left standing waits for another one");
  if (cycle.empty())
    return;
  std::vector<Fault> faults;
  for (const Hop &hop : cycle)
    for (OpId id : {hop.stands, hop.needed}) {
      const Op &op = context.program.ops[id];
      faults.push_back({Rule::CyclicOrder, 0, hop.device, op.stage, noMicrobatch, id, noOp});
    }
  bool isExplained = llvm::any_of(faults, [&](const Fault &fault) {
    return context.blamedCopies.contains(VerifyContext::copy(fault.device, fault.stage));
  });
  if (!isExplained)
    reportCycle(context, cycle, joinCollectives);
  blame(context, faults);
}

} // namespace sluice
