// 703 buffer-occupied: each pair holds the buffer that `buffer(s, m)` names, from the receive of its input
// (its forward where none is received) to the send of its gradient (its last backward half where none is
// sent). A buffer is free again for what begins behind the op, overlap or group that gives it back.
#include "Verify/Faults.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

namespace {

/// One pair in its buffer, by ops of one device. `begin` is the first op of the overlap or group of `take`.
struct Hold {
  uint32_t microbatch = noMicrobatch;
  OpId take = noOp, begin = noOp;
  OpId release = noOp; ///< noOp: to the end of the program.
};

class BufferWalk {
public:
  explicit BufferWalk(const Program &program)
      : program(program), releases(static_cast<size_t>(program.stages) * program.microbatches, noOp) {}
  std::vector<Fault> run();
  OpId release(const Op &op) const {
    return releases[static_cast<size_t>(op.stage) * program.microbatches + op.microbatch];
  }

private:
  OpId &releaseOf(const Op &op) {
    return releases[static_cast<size_t>(op.stage) * program.microbatches + op.microbatch];
  }
  void take(OpId id, OpId begin, uint32_t device);

  const Program &program;
  std::vector<OpId> releases;             // per pair
  llvm::DenseMap<uint64_t, Hold> holders; // per stage and buffer of the device at hand
  std::vector<Fault> faults;
};

} // namespace

static bool takes(const Op &op) { return op.kind == OpKind::Forward || op.kind == OpKind::RecvActivation; }

static bool givesBack(const Op &op) {
  return op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput ||
         op.kind == OpKind::BackwardWeight || op.kind == OpKind::SendGradient;
}

static bool isFollower(const Op &op) { return op.has(OverlapFollower) || op.has(GroupFollower); }

void BufferWalk::take(OpId id, OpId begin, uint32_t device) {
  const Op &op = program.ops[id];
  const uint64_t buffer = static_cast<uint64_t>(op.stage) << 32 | program.buffers.at(op.stage, op.microbatch);
  Hold &holder = holders[buffer];
  if (holder.microbatch == op.microbatch)
    return; // received before
  if (holder.microbatch != noMicrobatch && (holder.release == noOp || holder.release >= begin))
    faults.push_back({Rule::BufferOccupied, 0, device, op.stage, noMicrobatch, id, holder.take});
  holder = {op.microbatch, id, begin, release(op)};
}

std::vector<Fault> BufferWalk::run() {
  for (uint32_t device = 0; device < program.devices; ++device) {
    const OpId first = program.deviceBegin[device], end = program.deviceBegin[device + 1];
    for (OpId id = first; id < end; ++id)
      if (givesBack(program.ops[id]))
        releaseOf(program.ops[id]) = id;
    holders.clear();
    OpId begin = first;
    for (OpId id = first; id < end; ++id) {
      if (!isFollower(program.ops[id]))
        begin = id;
      if (takes(program.ops[id]))
        take(id, begin, device);
    }
  }
  return std::move(faults);
}

/// All pairs of one stage in their buffers on one device, in the order they take them.
static std::vector<Hold> holdsOf(const Program &program, const BufferWalk &walk, const Fault &fault) {
  std::vector<Hold> holds;
  std::vector<bool> seen(program.microbatches);
  OpId begin = program.deviceBegin[fault.device];
  for (OpId id = begin; id < program.deviceBegin[fault.device + 1]; ++id) {
    const Op &op = program.ops[id];
    if (!isFollower(op))
      begin = id;
    if (takes(op) && op.stage == fault.stage && !seen[op.microbatch]) {
      seen[op.microbatch] = true;
      holds.push_back({op.microbatch, id, begin, walk.release(op)});
    }
  }
  return holds;
}

static size_t mostAtOnce(llvm::ArrayRef<Hold> holds) {
  std::vector<OpId> releases;
  for (const Hold &hold : holds)
    releases.push_back(hold.release);
  llvm::sort(releases); // noOp last
  size_t most = 0, released = 0;
  for (size_t i = 0; i < holds.size(); ++i) {
    while (releases[released] < holds[i].begin)
      ++released;
    most = std::max(most, i + 1 - released);
  }
  return most;
}

/// Whether `mod(m, count)` gives every pair a free buffer.
static bool remaindersDo(llvm::ArrayRef<Hold> holds, size_t count) {
  std::vector<const Hold *> holder(count, nullptr);
  for (const Hold &hold : holds) {
    const Hold *&last = holder[hold.microbatch % count];
    if (last && last->release >= hold.begin)
      return false;
    last = &hold;
  }
  return true;
}

/// How many buffers would do, and as which remainders of the microbatch if that can be said.
static std::string enough(const Program &program, llvm::ArrayRef<Hold> holds) {
  const size_t most = mostAtOnce(holds);
  constexpr size_t tries = 64;
  for (size_t count = most; count < most + tries && count <= program.microbatches; ++count)
    if (remaindersDo(holds, count))
      return fmt::format("{} would do, as mod(m, {})", counted(count, "buffer", "buffers"), count);
  return counted(most, "buffer", "buffers") + " would do";
}

static void reportOccupied(VerifyContext &context, const FaultGroup &group, const BufferWalk &walk) {
  const Program &program = context.program;
  const Fault &first = group.front();
  const Op &op = program.ops[first.op], &held = program.ops[first.other];
  const OpId until = walk.release(held);
  Finding &finding = report(context, group,
                            {{"op", opText(context, first.op)},
                             {"buffer", fmt::format("{}", program.buffers.at(op.stage, op.microbatch))},
                             {"stage", fmt::format("{}", first.stage)},
                             {"holder", fmt::format("{}", held.microbatch)},
                             {"until", until == noOp ? "to the end" : "until " + opText(context, until)}});
  noteOp(context, finding, first.other, opText(context, first.other) + " took it");
  if (until != noOp)
    noteOp(context, finding, until, opText(context, until) + " gives it back");
  if (program.bufferSpan.isValid())
    finding.notes.push_back({"buffers are given here", program.bufferSpan, {}, ""});
  noteOthers(context, group, false, finding);
  finding.fix.message = enough(program, holdsOf(program, walk, first));
  if (until != noOp)
    finding.fix.message += fmt::format(", or move it behind {}", opText(context, until));
}

void verifyBuffers(VerifyContext &context) {
  if (context.program.buffers.empty() || context.hasMisplacedOps)
    return;
  BufferWalk walk(context.program);
  std::vector<Fault> faults = walk.run();
  keepFirstCauses(context, Scope::Copy, {Rule::BufferOccupied}, faults);
  for (const FaultGroup &group : groupByLine(context, faults))
    reportOccupied(context, group, walk);
  blame(context, faults);
}

} // namespace sluice
