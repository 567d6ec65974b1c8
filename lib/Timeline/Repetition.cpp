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

/// What decides when an op may start, and what becomes of what it makes, as ids of ops.
struct Edges {
  OpId neighbour = noOp;                             ///< Of another stage.
  OpId local = noOp;                                 ///< Of the same.
  bool isFirst = true;                               ///< Of ops that are the same.
  bool hasGradient = false, hasContribution = false; ///< Of a forward.
};
Edges edgesOf(const Program &program, const ProgramIndex &index, OpId id) {
  const Op &op = program.ops[id];
  const uint32_t s = op.stage, m = op.microbatch;
  Edges edges;
  switch (op.kind) {
  case OpKind::Forward:
    edges.neighbour = s > 0 ? index.forward(s - 1, m) : noOp;
    edges.isFirst = index.forward(s, m) == id;
    edges.hasGradient = index.backward(s, m) != noOp;
    edges.hasContribution = edges.hasGradient || index.weightHalf(s, m) != noOp;
    break;
  case OpKind::Backward:
  case OpKind::BackwardInput:
    edges.neighbour = s + 1 < program.stages ? index.backward(s + 1, m) : noOp;
    edges.isFirst = index.backward(s, m) == id;
    edges.local = index.recompute(s, m);
    if (edges.local == noOp)
      edges.local = index.forward(s, m);
    break;
  case OpKind::BackwardWeight:
    edges.isFirst = index.weightHalf(s, m) == id;
    edges.local = index.backward(s, m);
    break;
  case OpKind::Recompute:
    edges.isFirst = index.recompute(s, m) == id;
    edges.local = index.forward(s, m);
    break;
  default:
    break;
  }
  return edges;
}

/// Whether `later` are the edges `edges`, moved on by `far` ops of the neighbour's device and `near` of its
/// own.
bool follows(const Edges &edges, const Edges &later, uint32_t far, uint32_t near) {
  auto moved = [](OpId from, OpId to, uint32_t by) { return from == noOp ? to == noOp : to - from == by; };
  return later.isFirst && moved(edges.neighbour, later.neighbour, far) &&
         moved(edges.local, later.local, near) && edges.hasGradient == later.hasGradient &&
         edges.hasContribution == later.hasContribution;
}

/// Shortens one device's part; `far` gives the block length of the device of an op's neighbour, by its place
/// in the block.
RepeatedOps narrowed(const Program &program, const ProgramIndex &index, const Repetition &repetition,
                     const RepeatedOps &part) {
  const uint32_t length = part.length;
  OpId middle = part.first + (part.end - part.first) / 2;
  if (middle + length >= part.end) // fewer than two blocks
    return {part.first, part.first, length};
  std::vector<uint32_t> far(length);
  std::vector<Edges> around(length); // of the last op seen at each place of the block
  for (uint32_t i = 0; i < length; ++i) {
    around[i] = edgesOf(program, index, middle + i);
    if (around[i].neighbour != noOp)
      far[i] = repetition.devices[program.deviceOf(around[i].neighbour)].length;
  }
  std::vector<Edges> last = around;
  OpId to = middle;
  for (uint32_t place = 0; to + length < part.end; ++to, place = place + 1 == length ? 0 : place + 1) {
    const Edges later = edgesOf(program, index, to + length);
    if (!follows(last[place], later, far[place], length))
      break;
    last[place] = later;
  }
  OpId from = middle;
  for (uint32_t place = length - 1; from > part.first; --from, place = place == 0 ? length - 1 : place - 1) {
    const Edges earlier = edgesOf(program, index, from - 1);
    if (!earlier.isFirst || !follows(earlier, around[place], far[place], length))
      break;
    around[place] = earlier;
  }
  return {from, to == from ? from : to + length, length};
}

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
      part = narrowed(program, index, repetition, part);
  return llvm::all_of(repetition.devices, hasTwoBlocks);
}

} // namespace sluice
