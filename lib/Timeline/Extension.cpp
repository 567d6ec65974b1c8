#include "Timeline/Extension.h"

#include <algorithm>

namespace sluice {

namespace {

constexpr uint64_t leastBlocks = 48; // that a part repeats: fewer are simulated sooner than looked at
constexpr uint64_t firstPause = 8;

/// ends[i] = ends[i - distance] + period for `count` ops. Distances double, so that short blocks stream too.
void fill(int64_t *ends, size_t count, size_t distance, int64_t period) {
  for (size_t filled = 0; filled < count;) {
    const size_t step = std::min(distance, count - filled);
    int64_t *to = ends + filled;
    const int64_t *from = to - distance;
    for (size_t i = 0; i < step; ++i)
      to[i] = from[i] + period;
    filled += step;
    if (distance < 2048) {
      distance *= 2;
      period *= 2;
    }
  }
}

int64_t floorDivide(int64_t a, int64_t b) { return a / b - (a % b < 0); }

} // namespace

Extension::Extension(const Program &program, const ProgramIndex &index, Repetition repetition)
    : program(program), index(index), repetition(std::move(repetition)), paused(firstPause) {}

std::optional<Extension> Extension::of(const Program &program, const ProgramIndex &index) {
  auto repetition = findRepetition(program);
  auto isLong = [](const RepeatedOps &part) {
    return part.length == 0 || part.end - part.first >= leastBlocks * part.length;
  };
  if (!repetition || !llvm::all_of(repetition->devices, isLong))
    return std::nullopt;
  for (const RepeatedOps &part : repetition->devices)
    if (!llvm::all_of(llvm::ArrayRef(program.ops).slice(part.first, part.length), isPlain))
      return std::nullopt;
  if (!narrowToEdges(program, index, *repetition) || !llvm::all_of(repetition->devices, isLong))
    return std::nullopt;
  return Extension(program, index, std::move(*repetition));
}

OpId Extension::pauseOf(uint32_t device) const {
  const RepeatedOps &part = repetition.devices[device];
  const OpId programEnd = program.deviceBegin[device + 1];
  if (isDone || part.length == 0)
    return programEnd;
  OpId pause = static_cast<OpId>(std::min<uint64_t>(part.first + paused * part.length, part.end));
  while (pause != programEnd && program.ops[pause].has(OverlapFollower))
    ++pause;
  return pause;
}

/// Notes what the ops of the next block of each device need. False if some need what does not repeat.
bool Extension::findNeeds(llvm::ArrayRef<OpId> next) {
  needs.clear();
  window.assign(program.devices, 1); // program order
  for (uint32_t device = 0; device < program.devices; ++device) {
    const RepeatedOps &part = repetition.devices[device];
    if (part.length == 0)
      continue;
    // One block behind the first, edges are those of the block before.
    if (next[device] < part.first + part.length || next[device] + part.length > part.end)
      return false;
    for (OpId id = next[device]; id != next[device] + part.length; ++id) {
      const Op &op = program.ops[id];
      const uint32_t s = op.stage, m = op.microbatch;
      const bool isForward = op.kind == OpKind::Forward;
      if (isForward && s > 0 && !need(device, index.forward(s - 1, m), next))
        return false;
      if (op.makesGradient() && s + 1 < program.stages && !need(device, index.backward(s + 1, m), next))
        return false;
      // What the same stage has made is there: it stands before, on the same device.
    }
  }
  return true;
}

bool Extension::need(uint32_t device, OpId producer, llvm::ArrayRef<OpId> next) {
  if (producer == noOp)
    return true;
  const uint32_t from = program.deviceOf(producer);
  const RepeatedOps &part = repetition.devices[from];
  if (!part.holds(producer))
    return false;
  const int64_t behind = static_cast<int64_t>(next[from]) - producer;
  window[from] = static_cast<uint32_t>(std::max<int64_t>(window[from], behind));
  const int64_t ahead = floorDivide(-behind, part.length);
  for (Need &known : llvm::reverse(needs)) {
    if (known.device != device)
      break;
    if (known.producer == from) {
      known.ahead = std::max(known.ahead, ahead);
      return true;
    }
  }
  needs.push_back({device, from, ahead});
  return true;
}

/// Whether what later ops need was made `blocks` blocks after the same, and `period` later, on all devices.
bool Extension::repeats(llvm::ArrayRef<int64_t> ends, llvm::ArrayRef<OpId> next, uint32_t blocks,
                        int64_t &period) const {
  period = 0;
  for (uint32_t device = 0; device < program.devices; ++device) {
    const RepeatedOps &part = repetition.devices[device];
    if (part.length == 0)
      continue;
    const OpId end = next[device], distance = part.length * blocks;
    // Ops whose edges were those of the op a block before made what is compared.
    if (end - part.first < static_cast<uint64_t>(window[device]) + distance + part.length)
      return false;
    if (period == 0)
      period = ends[end - 1] - ends[end - 1 - distance];
    for (OpId op = end; op != end - window[device]; --op)
      if (ends[op - 1] - ends[op - 1 - distance] != period)
        return false;
  }
  return period > 0;
}

uint32_t Extension::repeatedBlocks(llvm::ArrayRef<int64_t> ends, llvm::ArrayRef<OpId> next,
                                   int64_t &period) const {
  const uint32_t most = 4 * program.devices + 16; // as Steady.cpp
  for (uint32_t blocks = 1; blocks <= most; ++blocks)
    if (repeats(ends, next, blocks, period))
      return blocks;
  return 0;
}

/// How many blocks of each device may be filled: its own, and of those it needs no fewer than they make.
bool Extension::shareOut(llvm::ArrayRef<OpId> next, std::vector<int64_t> &blocks) const {
  blocks.assign(program.devices, 0);
  for (uint32_t device = 0; device < program.devices; ++device)
    if (const RepeatedOps &part = repetition.devices[device]; part.length > 0)
      blocks[device] = (part.end - next[device]) / part.length;
  for (uint32_t round = 0; round <= program.devices; ++round) {
    bool changed = false;
    for (const Need &need : needs)
      if (blocks[need.producer] - need.ahead < blocks[need.device]) {
        blocks[need.device] = blocks[need.producer] - need.ahead;
        changed = true;
      }
    if (!changed)
      return llvm::all_of(blocks, [](int64_t count) { return count >= 0; });
  }
  return false;
}

bool Extension::extend(llvm::MutableArrayRef<int64_t> ends, llvm::MutableArrayRef<OpId> next) {
  int64_t period = 0;
  std::vector<int64_t> blocks;
  const uint32_t distance = findNeeds(next) ? repeatedBlocks(ends, next, period) : 0;
  paused += std::max(firstPause, paused / 4);
  isDone = llvm::all_of(repetition.devices, [&](const RepeatedOps &part) {
    return part.first + paused * part.length >= part.end;
  });
  if (distance == 0 || !shareOut(next, blocks))
    return false;
  isDone = true;
  for (uint32_t device = 0; device < program.devices; ++device) {
    const RepeatedOps &part = repetition.devices[device];
    OpId to = next[device] + static_cast<OpId>(blocks[device]) * part.length;
    while (to > next[device] && to != program.deviceBegin[device + 1] && program.ops[to].has(OverlapFollower))
      --to; // an overlap begins as a whole
    if (part.length > 0)
      fill(ends.data() + next[device], to - next[device], static_cast<size_t>(part.length) * distance,
           period);
    next[device] = to;
  }
  return true;
}

} // namespace sluice
