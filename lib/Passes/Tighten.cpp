#include "Passes/Tighten.h"

#include "Passes/SlotGrid.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <deque>

namespace sluice {

namespace {

bool isBackward(const Op &op) { return op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput; }

class Tightener {
public:
  explicit Tightener(const Program &program)
      : program(program), index(program), order(program.devices), previous(program.size(), noOp),
        rank(program.size(), 0) {}

  Tightened run(llvm::ArrayRef<int64_t> slots) {
    Tightened result;
    if (OpId op = gather(); op != noOp) {
      result.unsuited = op;
      return result;
    }
    result.program = program;
    if (!isComplete())
      return result;
    link();
    if (!closeUp()) // what sticks as it is must not be mended on the way
      return result;
    takeSlots(slots);
    if (!hasHalves) {
      sweep(/*fill=*/true, /*steady=*/true, /*weightsOut=*/false);
    } else {
      sweep(/*fill=*/true, /*steady=*/false, /*weightsOut=*/false);
      if (!closeUp())
        return result;
      for (std::vector<OpId> &ops : order)
        llvm::erase_if(ops, [&](OpId op) { return program.ops[op].kind == OpKind::BackwardWeight; });
      sweep(/*fill=*/false, /*steady=*/false, /*weightsOut=*/true);
      for (uint32_t device = 0; device < program.devices; ++device)
        putWeightsBack(device);
    }
    result.program = rewritten();
    return result;
  }

private:
  /// Lists what each device computes; the first op that cannot be moved, or noOp.
  OpId gather() {
    if (!program.namedVersions.empty())
      return program.namedVersions.front().op;
    for (OpId op = 0; program.isExplicit && op < program.size(); ++op)
      if (program.ops[op].isCommunication())
        return op;
    for (uint32_t device = 0; device < program.devices; ++device) {
      OpId first = program.deviceBegin[device], end = program.deviceBegin[device + 1];
      while (first < end && !program.ops[first].touchesActivation())
        ++first;
      while (end > first && !program.ops[end - 1].touchesActivation())
        --end;
      for (OpId op = first; op < end; ++op) {
        const OpKind kind = program.ops[op].kind;
        const bool isKnown = kind == OpKind::Forward || kind == OpKind::Backward ||
                             kind == OpKind::BackwardInput || kind == OpKind::BackwardWeight;
        if (!isKnown || program.ops[op].flags != 0)
          return op;
        hasHalves |= kind == OpKind::BackwardInput;
        order[device].push_back(op);
      }
    }
    return noOp;
  }

  /// Every op once, and what it rests on.
  bool isComplete() const {
    for (const std::vector<OpId> &ops : order)
      for (OpId id : ops) {
        const Op &op = program.ops[id];
        const uint32_t s = op.stage, m = op.microbatch;
        const OpId backward = index.backward(s, m), half = index.weightHalf(s, m);
        if (index.forward(s, m) == noOp || backward == noOp ||
            (program.ops[backward].kind == OpKind::BackwardInput) != (half != noOp))
          return false;
        const OpId known = op.kind == OpKind::Forward          ? index.forward(s, m)
                           : op.kind == OpKind::BackwardWeight ? half
                                                               : backward;
        if (known != id ||
            (half != noOp && (half < backward || program.deviceOf(half) != program.deviceOf(backward))))
          return false; // of two ops of one device the one behind has the higher id
      }
    return true;
  }

  /// Finds the op of its own kind and stage before each, and counts weight halves and input halves.
  void link() {
    std::vector<OpId> last(size_t(program.stages) * 2, noOp);
    for (const std::vector<OpId> &ops : order) {
      uint32_t weights = 0;
      for (OpId id : ops) {
        const Op &op = program.ops[id];
        if (op.kind == OpKind::BackwardWeight)
          rank[id] = weights++;
        else
          previous[id] = std::exchange(last[op.stage * 2u + isBackward(op)], id);
        forwardsOfFirst += op.kind == OpKind::Forward && op.stage == 0;
      }
      for (OpId id : ops)
        last[program.ops[id].stage * 2u] = last[program.ops[id].stage * 2u + 1] = noOp;
    }
  }

  /// Takes slots that ascend on every device and lie close enough to be walked one by one.
  void takeSlots(llvm::ArrayRef<int64_t> given) {
    if (given.size() != program.size())
      return;
    int64_t least = INT64_MAX, most = INT64_MIN, longest = 0;
    bool isRoomy = true; // each whole backward has the slot behind it to itself
    for (const std::vector<OpId> &ops : order) {
      for (size_t i = 0; i < ops.size(); ++i) {
        const int64_t slot = given[ops[i]];
        if (i > 0 && slot <= given[ops[i - 1]])
          return;
        isRoomy &= i + 1 == ops.size() || program.ops[ops[i]].kind != OpKind::Backward ||
                   given[ops[i + 1]] >= slot + 2;
        least = std::min(least, slot);
        most = std::max(most, slot);
      }
      longest = std::max<int64_t>(longest, static_cast<int64_t>(ops.size()));
    }
    if (longest == 0 || most - least > 16 * longest + 64 * int64_t(program.stages))
      return;
    wholeWidth = isRoomy ? 2 : 1;
    slotOf.resize(program.size());
    for (const std::vector<OpId> &ops : order)
      for (OpId op : ops)
        slotOf[op] = static_cast<uint32_t>(given[op] - least);
  }

  /// What `id` waits for beside its device: the input and the gradient, or noOp.
  std::pair<OpId, OpId> inputs(OpId id) const {
    const Op &op = program.ops[id];
    const uint32_t s = op.stage, m = op.microbatch;
    if (op.kind == OpKind::Forward)
      return {s == 0 ? noOp : index.forward(s - 1, m), noOp};
    if (op.kind == OpKind::BackwardWeight)
      return {noOp, noOp}; // its place among the input halves decides
    return {index.forward(s, m), s + 1 == program.stages ? noOp : index.backward(s + 1, m)};
  }

  /// Runs the orders with ops of one slot (a whole backward two), each as early as can be; false if they
  /// are cyclic.
  bool closeUp() {
    constexpr uint32_t unset = ~0u;
    std::vector<uint32_t> end(program.size(), unset), time(program.devices, 0);
    std::vector<size_t> next(program.devices, 0);
    std::vector<uint32_t> waiting(program.size(), noDevice), nextWaiting(program.devices, noDevice);
    std::vector<uint32_t> ready;
    size_t left = 0;
    slotOf.resize(program.size());
    for (uint32_t device = program.devices; device-- > 0;) {
      ready.push_back(device);
      left += order[device].size();
    }
    while (!ready.empty()) {
      const uint32_t device = ready.back();
      ready.pop_back();
      for (; next[device] < order[device].size(); ++next[device]) {
        const OpId id = order[device][next[device]];
        const auto [input, gradient] = inputs(id);
        uint32_t start = time[device];
        OpId lacking = noOp;
        for (OpId need : {input, gradient})
          if (need != noOp && end[need] == unset)
            lacking = need;
          else if (need != noOp)
            start = std::max(start, end[need]);
        if (lacking != noOp) {
          nextWaiting[device] = std::exchange(waiting[lacking], device);
          break;
        }
        slotOf[id] = start;
        end[id] = time[device] = start + (program.ops[id].kind == OpKind::Backward ? wholeWidth : 1);
        --left;
        for (uint32_t woken = std::exchange(waiting[id], noDevice); woken != noDevice;
             woken = nextWaiting[woken])
          ready.push_back(woken);
      }
    }
    return left == 0;
  }

  void sweep(bool fill, bool steady, bool weightsOut) {
    SlotGrid grid(program, order, slotOf, wholeWidth, weightsOut);
    enum class Phase : uint8_t { Fill, Steady, Drain } phase = Phase::Fill;
    uint64_t forwards = 0;
    inputHalves.assign(program.devices, {});
    weightBefore.assign(program.devices, 0);
    for (uint32_t slot = 0; slot < grid.slotCount(); ++slot)
      for (uint32_t device = 0; device < program.devices; ++device) {
        const OpId id = grid.at(device, slot);
        if (id >= SlotGrid::secondSlot)
          continue;
        const Op &op = program.ops[id];
        const bool isLastForward =
            op.kind == OpKind::Forward && op.stage == 0 && ++forwards == forwardsOfFirst;
        if (phase == Phase::Fill && op.stage == 0 && isBackward(op))
          phase = Phase::Steady;
        const bool entersDrain = phase == Phase::Steady && isLastForward;
        if (entersDrain)
          phase = Phase::Drain;
        const bool moves = steady || (phase == Phase::Fill ? fill : phase == Phase::Drain && !entersDrain);
        if (moves && (!weightsOut || op.kind != OpKind::Backward))
          grid.pull(device, id, earliest(grid, device, id));
        settle(grid, device, id);
      }
    order = grid.order();
    slotOf = grid.allSlots();
  }

  uint32_t earliest(const SlotGrid &grid, uint32_t device, OpId id) const {
    if (program.ops[id].kind == OpKind::BackwardWeight)
      return std::max(weightBefore[device], rank[id] < inputHalves[device].size()
                                                ? inputHalves[device][rank[id]] + 1
                                                : grid.slotOf(id));
    uint32_t result = 0;
    const auto [input, gradient] = inputs(id);
    for (OpId need : {input, gradient, previous[id]})
      if (need != noOp)
        result = std::max(result, grid.endOf(need));
    return result;
  }

  /// Notes where the op stands for good: weight halves look for the input half of their number.
  void settle(const SlotGrid &grid, uint32_t device, OpId id) {
    const uint32_t slot = grid.slotOf(id);
    if (program.ops[id].kind == OpKind::BackwardWeight)
      weightBefore[device] = slot + 1;
    if (program.ops[id].kind != OpKind::BackwardInput)
      return;
    std::vector<uint32_t> &halves = inputHalves[device];
    halves.insert(std::upper_bound(halves.begin(), halves.end(), slot), slot);
  }

  void putWeightsBack(uint32_t device) {
    std::vector<uint32_t> stages; // of pending halves, ascending
    std::vector<std::deque<OpId>> pending;
    std::vector<OpId> result;
    auto runOne = [&] {
      for (size_t i = stages.size(); i-- > 0;)
        if (!pending[i].empty()) {
          result.push_back(pending[i].front());
          pending[i].pop_front();
          return true;
        }
      return false;
    };
    uint32_t slot = 0;
    for (OpId id : order[device]) {
      for (; slot < slotOf[id]; ++slot)
        if (!runOne()) {
          slot = slotOf[id];
          break;
        }
      slot = slotOf[id] + (program.ops[id].kind == OpKind::Backward ? wholeWidth : 1);
      result.push_back(id);
      const Op &op = program.ops[id];
      if (op.kind != OpKind::BackwardInput)
        continue;
      auto place = llvm::lower_bound(stages, op.stage);
      const auto at = place - stages.begin();
      if (place == stages.end() || *place != op.stage) {
        stages.insert(place, op.stage);
        pending.insert(pending.begin() + at, std::deque<OpId>());
      }
      pending[static_cast<size_t>(at)].push_back(index.weightHalf(op.stage, op.microbatch));
    }
    while (runOne()) {
    }
    order[device] = std::move(result);
  }

  Program rewritten() const {
    Program result = program;
    for (uint32_t device = 0; device < program.devices; ++device) {
      OpId to = program.deviceBegin[device];
      while (to < program.deviceBegin[device + 1] && !program.ops[to].touchesActivation())
        ++to;
      for (OpId from : order[device]) {
        result.ops[to] = program.ops[from];
        if (!program.siteOf.empty()) {
          result.siteOf[to] = program.siteOf[from];
          result.frameOf[to] = program.frameOf[from];
        }
        ++to;
      }
    }
    return result;
  }

  const Program &program;
  const ProgramIndex index;
  std::vector<std::vector<OpId>> order; ///< Per device what it computes, by slot.
  std::vector<uint32_t> slotOf;         ///< Per op.
  std::vector<OpId> previous;           ///< Of the same kind and stage on its device.
  std::vector<uint32_t> rank;           ///< Of a weight half among those of its device.
  uint64_t forwardsOfFirst = 0;         ///< Forwards of stage 0.
  unsigned wholeWidth = 2;              ///< Slots of a whole backward.
  bool hasHalves = false;
  // While sweeping, per device: slots of the input halves that stand, and behind the last weight half.
  std::vector<std::vector<uint32_t>> inputHalves;
  std::vector<uint32_t> weightBefore;
};

} // namespace

Tightened tighten(const Program &program, llvm::ArrayRef<int64_t> slots) {
  return Tightener(program).run(slots);
}

} // namespace sluice
