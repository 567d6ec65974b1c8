#include "Timeline/Repetition.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

namespace sluice {

namespace {

/// Kind, flags and stage below, the microbatch above: one comparison of two ops.
uint64_t wordOf(const Op &op) { return std::bit_cast<uint64_t>(op); }
static_assert(std::endian::native == std::endian::little, "the microbatch is the upper half of a word");
constexpr uint64_t nowhere = static_cast<uint64_t>(noMicrobatch) << 32;

/// Whether `later` is `op` for the microbatch `step` words further on; ops without one stay as they are.
bool follows(uint64_t op, uint64_t later, uint64_t step) { return later - op == (op >= nowhere ? 0 : step); }

/// The ops of one device, and what of them repeats.
class Block {
public:
  Block(const Program &program, uint32_t device)
      : ops(program.ops.data()), begin(program.deviceBegin[device]), end(program.deviceBegin[device + 1]) {
    // An op of some microbatch near the middle, where an overlap may begin.
    for (middle = begin + (end - begin) / 2; middle != end && !isAnchor(ops[middle]); ++middle)
      ;
  }

  /// Finds the shortest block for `microbatches` or, if there is none, for fewest that repeat here. Returns
  /// that number; 0 for none.
  uint32_t find(uint32_t microbatches) {
    uint64_t budget = end - begin + 64u; // of comparisons: a program that repeats nothing costs little
    if (microbatches != 0 && findFor(microbatches, budget))
      return microbatches;
    return findFor(0, budget) ? found : 0;
  }
  void multiply(uint32_t factor) { length *= factor; }

  /// The longest stretch around the middle in which the block repeats.
  RepeatedOps extend(uint32_t microbatches) const {
    const uint64_t step = static_cast<uint64_t>(microbatches) << 32;
    OpId from = middle, to = middle; // [from, to) is followed by itself
    while (to + length < end && follows(wordOf(ops[to]), wordOf(ops[to + length]), step))
      ++to;
    while (from > begin && from - 1 + length < end &&
           follows(wordOf(ops[from - 1]), wordOf(ops[from - 1 + length]), step))
      --from;
    return {from, to == from ? from : to + length, length};
  }

private:
  static bool isAnchor(const Op &op) { return op.hasMicrobatch() && !op.has(OverlapFollower); }

  bool findFor(uint32_t microbatches, uint64_t &budget) {
    if (middle == end)
      return false;
    const uint64_t anchor = wordOf(ops[middle]);
    for (OpId op = middle + 1; op < end && op - middle <= middle - begin && budget > 0; ++op, --budget) {
      const uint64_t distance = wordOf(ops[op]) - anchor; // wraps if the microbatch is smaller
      if (distance == 0 || static_cast<uint32_t>(distance) != 0 || distance >> 63 != 0 ||
          (microbatches != 0 && distance >> 32 != microbatches))
        continue;
      length = op - middle;
      if (!repeatsHere(distance, budget))
        continue;
      found = static_cast<uint32_t>(distance >> 32);
      return true;
    }
    return false;
  }
  /// Whether the block before the middle is followed by the one behind it.
  bool repeatsHere(uint64_t step, uint64_t &budget) const {
    for (OpId op = middle; op != middle - length; --op) {
      if (budget == 0)
        return false;
      --budget;
      if (!follows(wordOf(ops[op - 1]), wordOf(ops[op - 1 + length]), step))
        return false;
    }
    return true;
  }

  const Op *ops;
  OpId begin, end, middle = 0;
  uint32_t length = 0, found = 0;
};

/// One place of a device's block: what the op of block 0 there is, and what it gets. Of block r everything is
/// r times as far on.
struct Place {
  Op op;
  OpId id = noOp;
  OpId neighbour = noOp;    ///< What makes its input, on another stage.
  uint32_t distance = 0;    ///< Of two blocks of that one's device.
  bool hasGradient = false; ///< Of a forward: some op makes it.
  bool hasWeightHalf = false;
};

/// Looks at the blocks of one device's part, from its middle on.
class EdgeCheck {
public:
  EdgeCheck(const Program &program, const ProgramIndex &index, const Repetition &repetition,
            const RepeatedOps &part)
      : stages(program.stages), index(index), step(repetition.microbatches), length(part.length),
        middle(part.first + (part.end - part.first) / 2) {
    for (OpId id = middle; id != middle + length; ++id) {
      Place place{program.ops[id], id};
      const uint32_t s = place.op.stage, m = place.op.microbatch;
      if (place.op.kind == OpKind::Forward && s > 0)
        place.neighbour = index.forward(s - 1, m);
      if (place.op.makesGradient() && s + 1 < stages)
        place.neighbour = index.backward(s + 1, m);
      if (place.neighbour != noOp)
        place.distance = repetition.devices[program.deviceOf(place.neighbour)].length;
      if (place.op.isCompute()) {
        place.hasGradient = index.backward(s, m) != noOp;
        place.hasWeightHalf = index.weightHalf(s, m) != noOp;
      }
      places.push_back(place);
    }
  }

  /// The longest part around the middle in which all places hold what those of its first block do.
  RepeatedOps narrowed(const RepeatedOps &part) const {
    OpId end = part.end, first = part.first;
    for (OpId from = middle; from < end;) {
      const OpId to = from + std::min(tileOps(), end - from);
      if (const OpId bad = firstBad(from, to); bad != to)
        end = bad;
      from = to;
    }
    for (OpId to = middle; to > first;) {
      const OpId from = to - std::min(tileOps(), to - first);
      if (const OpId behind = behindLastBad(from, to); behind != from)
        first = behind;
      to = from;
    }
    return {first, end, length};
  }

private:
  // Places are looked at one after the other, for as many blocks as the caches hold.
  OpId tileOps() const { return length * std::max<uint32_t>(1, 4096 / length); }

  /// The first op of [from, to) that breaks the pattern; `to` if none does.
  OpId firstBad(OpId from, OpId to) const {
    OpId bad = to;
    eachBad(from, to, [&](OpId id) { bad = std::min(bad, id); });
    return bad;
  }
  /// The op behind the last one that breaks it; `from` if none does.
  OpId behindLastBad(OpId from, OpId to) const {
    OpId behind = from;
    eachBad(from, to, [&](OpId id) { behind = std::max(behind, id + 1); });
    return behind;
  }

  template <typename Visit> void eachBad(OpId from, OpId to, Visit bad) const {
    for (const Place &place : places) {
      // The first of its ops from `from` on, and its block.
      const int64_t behind = static_cast<int64_t>(from) - place.id;
      const int64_t block = behind / length + (behind % length > 0);
      eachBadOf(place, block, to, bad);
    }
  }
  template <typename Visit> void eachBadOf(const Place &place, int64_t block, OpId to, Visit bad) const {
    const uint32_t s = place.op.stage;
    switch (place.op.kind) {
    case OpKind::Forward:
      return scan(place, block, to, bad, [&](uint32_t m, OpId id, OpId neighbour) {
        return index.forward(s, m) == id && (s == 0 || index.forward(s - 1, m) == neighbour) &&
               (index.backward(s, m) != noOp) == place.hasGradient &&
               (index.weightHalf(s, m) != noOp) == place.hasWeightHalf;
      });
    case OpKind::Backward:
    case OpKind::BackwardInput:
      return scan(place, block, to, bad, [&](uint32_t m, OpId id, OpId neighbour) {
        const OpId recomputed = index.recompute(s, m);
        return index.backward(s, m) == id && (s + 1 == stages || index.backward(s + 1, m) == neighbour) &&
               (recomputed == noOp ? index.forward(s, m) : recomputed) < id;
      });
    case OpKind::BackwardWeight:
      return scan(place, block, to, bad, [&](uint32_t m, OpId id, OpId) {
        return index.weightHalf(s, m) == id && index.backward(s, m) < id;
      });
    case OpKind::Recompute:
      return scan(place, block, to, bad, [&](uint32_t m, OpId id, OpId) {
        return index.recompute(s, m) == id && index.forward(s, m) < id;
      });
    default:
      return;
    }
  }
  template <typename Visit, typename Holds>
  void scan(const Place &place, int64_t block, OpId to, Visit bad, Holds holds) const {
    auto moved = [&](uint32_t value, uint32_t by) {
      return static_cast<uint32_t>(value + block * static_cast<int64_t>(by));
    };
    OpId id = moved(place.id, length), m = moved(place.op.microbatch, step);
    OpId neighbour = place.neighbour == noOp ? noOp : moved(place.neighbour, place.distance);
    const uint32_t distance = place.neighbour == noOp ? 0 : place.distance;
    for (; id < to; id += length, m += step, neighbour += distance)
      if (!holds(m, id, neighbour))
        bad(id);
  }

  const uint32_t stages;
  const ProgramIndex &index;
  const uint32_t step, length;
  const OpId middle;
  std::vector<Place> places;
};

bool hasTwoBlocks(const RepeatedOps &part) {
  return part.length == 0 || part.end - part.first >= 2 * static_cast<uint64_t>(part.length);
}

} // namespace

std::optional<Repetition> findRepetition(const Program &program) {
  Repetition result;
  uint32_t microbatches = 0;
  std::vector<Block> blocks;
  std::vector<uint32_t> own(program.devices); // microbatches of each block; 0 without ops
  for (uint32_t device = 0; device < program.devices; ++device) {
    Block &block = blocks.emplace_back(program, device);
    if (program.opsOf(device).empty())
      continue;
    own[device] = block.find(microbatches);
    if (own[device] == 0)
      return std::nullopt;
    const uint64_t common = microbatches == 0 ? own[device] : std::lcm<uint64_t>(microbatches, own[device]);
    if (common > program.microbatches)
      return std::nullopt;
    microbatches = static_cast<uint32_t>(common);
  }
  const uint64_t whole = std::lcm<uint64_t>(microbatches, program.sequenceSplits);
  if (microbatches == 0 || whole > program.microbatches)
    return std::nullopt;
  result.microbatches = static_cast<uint32_t>(whole);
  for (uint32_t device = 0; device < program.devices; ++device) {
    RepeatedOps &part = result.devices.emplace_back();
    if (own[device] == 0)
      continue;
    blocks[device].multiply(result.microbatches / own[device]);
    part = blocks[device].extend(result.microbatches);
    if (!hasTwoBlocks(part))
      return std::nullopt;
  }
  return result;
}

bool narrowToEdges(const Program &program, const ProgramIndex &index, Repetition &repetition) {
  for (RepeatedOps &part : repetition.devices)
    if (part.length > 0)
      part = EdgeCheck(program, index, repetition, part).narrowed(part);
  return llvm::all_of(repetition.devices, hasTwoBlocks);
}

} // namespace sluice
