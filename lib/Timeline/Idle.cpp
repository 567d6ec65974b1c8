#include "Timeline/Idle.h"

#include "Timeline/BindingTree.h"
#include "Timeline/SimulateEvents.h"

#include <algorithm>

namespace sluice {

namespace {

// Most gaps end a few ops up their chain, so chains are walked; once that has taken more steps than there
// are ops (one slow stage, and every gap behind it leads back to it) the tree takes over.
class Gaps {
public:
  Gaps(const Program &program, const Bindings &bindings)
      : program(program), bindings(bindings), stepsLeft(program.size()) {}

  /// Time under transfers in the gap from `from` to the start of `last`.
  int64_t transfer(int64_t from, OpId last) {
    if (stepsLeft == 0) {
      if (!tree)
        tree.emplace(program, bindings);
      return tree->transferSince(from, last);
    }
    int64_t transferred = 0;
    for (int64_t to = bindings.start(last); to > from; stepsLeft -= stepsLeft > 0) {
      const Binding binding = bindings.of(last);
      const int64_t sent = binding.arrival - binding.transfer;
      transferred += to - std::max(sent, from);
      last = binding.op;
      to = sent > from ? bindings.start(last) : from;
      if (sent > from && bindings.isMove(last))
        transferred += sent - std::max(to, from);
    }
    return transferred;
  }

private:
  const Program &program;
  const Bindings &bindings;
  uint64_t stepsLeft;
  std::optional<BindingTree> tree;
};

/// One block of a device stands for those that repeat it: what is busy in it, and what of its gaps lies under
/// transfers. A gap is explained by ops that end within it, so between the moments from which and up to which
/// all devices repeat, all explanations do too.
class Repeats {
public:
  Repeats(const Program &program, const Timeline &timeline, const Steady *steady) : steady(steady) {
    if (!steady)
      return;
    for (uint32_t device = 0; device < program.devices; ++device) {
      const RepeatedOps &part = steady->blocks.devices[device];
      if (part.length == 0)
        continue;
      const bool isEmpty = part.end == part.first;
      from = std::max(from, isEmpty ? timeline.makespan : timeline.end[part.first]);
      to = std::min(to, isEmpty ? 0 : timeline.end[part.end - 1]);
    }
  }

  /// Looks at the op or overlap at `op` before it is counted, `times` being those before it and `free` their
  /// end: returns how many blocks to pass over, of which `times` has been told.
  uint64_t pass(uint32_t device, OpId op, int64_t free, DeviceTimes &times) {
    const RepeatedOps *part = steady ? &steady->blocks.devices[device] : nullptr;
    if (!part || !part->holds(op) || free < from)
      return 0;
    if (device != blockDevice || op >= blockBegin + uint64_t(2) * part->length) { // passed over
      blockDevice = device;
      blockBegin = op;
      before = times;
      return 0;
    }
    if (op != blockBegin + part->length)
      return 0;
    const int64_t blocks =
        std::min<int64_t>((part->end - op) / part->length, (to - 1 - free) / steady->period);
    if (blocks <= 0)
      return 0;
    times.busy += blocks * (times.busy - before.busy);
    times.useful += blocks * (times.useful - before.useful);
    times.stallTransfer += blocks * (times.stallTransfer - before.stallTransfer);
    return static_cast<uint64_t>(blocks);
  }
  int64_t period() const { return steady->period; }
  uint32_t length(uint32_t device) const { return steady->blocks.devices[device].length; }

private:
  const Steady *steady;
  int64_t from = 0, to = INT64_MAX;
  uint32_t blockDevice = noDevice; // of the block that is counted
  OpId blockBegin = noOp;
  DeviceTimes before;
};

/// The compute ops of a device: [first, last], an overlap by its first op; empty if first > last.
struct ComputeRange {
  OpId first, last;
};
ComputeRange computeRange(const Program &program, uint32_t device) {
  OpId first = program.deviceBegin[device], end = program.deviceBegin[device + 1];
  while (first != end && !program.ops[first].isCompute())
    ++first;
  OpId last = end;
  while (last != first && !program.ops[last - 1].isCompute())
    --last;
  return {first, last - 1};
}

/// Whether an op is busy that does not compute: an update, or a collective or host move, or under
/// `transfers = blocking` a transfer, that holds its device up.
bool isBusyOtherwise(const CostModel &costs, const Timeline &timeline, const Op &op) {
  return op.kind == OpKind::Update || (!timeline.met.empty() && occupiesFromMet(costs, op));
}

DeviceTimes timesOf(const Program &program, const CostModel &costs, const Timeline &timeline, Gaps &gaps,
                    Repeats &repeats, uint32_t device) {
  DeviceTimes times;
  const OpId deviceEnd = program.deviceBegin[device + 1];
  auto [first, last] = computeRange(program, device);
  const bool computes = first != deviceEnd;
  int64_t busyBefore = 0, busyBehind = 0; // outside the range
  auto otherwise = [&](OpId begin, OpId end, int64_t &sum) {
    for (OpId op = begin; op < end; ++op)
      if (isBusyOtherwise(costs, timeline, program.ops[op]))
        sum += timeline.end[op] - timeline.start(program, costs, op);
  };
  otherwise(program.deviceBegin[device], first, busyBefore);
  if (!computes) {
    times.busy = busyBefore;
    times.idle = times.fill = timeline.makespan - times.busy;
    return times;
  }
  otherwise(last + 1, deviceEnd, busyBehind);
  int64_t free = -1; // when the device has ended all before `op`; below 0 before its first compute op
  OpId next = first;
  for (OpId op = first; op <= last; op = next) {
    if (const uint64_t blocks = repeats.pass(device, op, free, times)) {
      next = op + static_cast<OpId>(blocks * repeats.length(device));
      free += static_cast<int64_t>(blocks) * repeats.period();
      continue;
    }
    next = program.ops[op].has(OverlapFirst) ? program.groupEnd(op) : op + 1;
    // What takes no time, as a wait, ends a gap as well: it is what the device stood for.
    int64_t start = timeline.end[op];
    if (next - op > 1 || program.ops[op].isCompute())
      start -= durationOfGroup(costs, &program.ops[op], next - op);
    else if (isBusyOtherwise(costs, timeline, program.ops[op]))
      start = timeline.start(program, costs, op);
    const int64_t duration = timeline.end[op] - start;
    times.busy += duration;
    if (next - op > 1 || program.ops[op].isUseful())
      times.useful += duration;
    if (free < 0)
      times.spanBegin = start;
    else if (start > free)
      times.stallTransfer += gaps.transfer(free, op);
    free = timeline.end[op];
  }
  times.spanEnd = free;
  times.busy += busyBefore + busyBehind;
  times.idle = timeline.makespan - times.busy;
  times.fill = times.spanBegin - busyBefore;
  times.drain = timeline.makespan - times.spanEnd - busyBehind;
  return times;
}

} // namespace

std::vector<DeviceTimes> deviceTimes(const Program &program, const ProgramIndex &index,
                                     const CostModel &costs, const Timeline &timeline,
                                     const Steady *repeated) {
  Bindings bindings(program, index, costs, timeline);
  Gaps gaps(program, bindings);
  Repeats repeats(program, timeline, repeated);
  std::vector<DeviceTimes> result;
  int64_t mostBusy = 0;
  for (uint32_t device = 0; device < program.devices; ++device) {
    result.push_back(timesOf(program, costs, timeline, gaps, repeats, device));
    mostBusy = std::max(mostBusy, result.back().busy);
  }
  for (DeviceTimes &times : result) {
    int64_t wait = times.idle - times.fill - times.drain - times.stallTransfer;
    times.imbalance = std::min(wait, mostBusy - times.busy);
    times.stallUpstream = wait - times.imbalance;
  }
  return result;
}

} // namespace sluice
