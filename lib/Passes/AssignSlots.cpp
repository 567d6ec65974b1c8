#include "Passes/AssignSlots.h"

#include "Passes/InferCommunication.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <deque>
#include <numeric>

namespace sluice {

using runtime::Instruction;
using runtime::noSlot;

namespace {

/// Slots of one class, reused in the order they were freed; grows only when none is free.
class SlotPool {
public:
  explicit SlotPool(uint32_t count = 0) : count(count), free(count) {
    std::iota(free.begin(), free.end(), 0u);
  }
  uint32_t take() {
    if (free.empty())
      return count++;
    const uint32_t slot = free.front();
    free.pop_front();
    return slot;
  }
  void give(uint32_t slot) { free.push_back(slot); }
  uint32_t size() const { return count; }

private:
  uint32_t count;
  std::deque<uint32_t> free;
};

/// Where a (stage, microbatch) of the device has its things at this point of the walk.
struct Held {
  uint32_t input = noSlot, output = noSlot, gradient = noSlot, saved = noSlot, pending = noSlot;
  uint32_t inputGradient = noSlot; // made here, for a message or the stage before on this device
};

/// Writes the rows of one device. Run twice: once to count boundary slots, once with all of them at hand.
class DeviceLowering {
public:
  DeviceLowering(const Program &program, const ProgramIndex &index, const PlacedCommunication &placed,
                 uint32_t device, uint32_t boundaries)
      : program(program), index(index), placed(placed), device(device), boundaryPool(boundaries) {}

  DeviceTable run() {
    const std::vector<PlacedStep> &steps = placed.steps[device];
    for (size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].kind == PlacedStep::Kind::Run)
        runOp(program.ops[steps[i].index]);
      else
        communicate(placed.messages[steps[i].index], steps[i].kind == PlacedStep::Kind::Send);
      const bool groupGoesOn = i + 1 < steps.size() && steps[i + 1].kind == PlacedStep::Kind::Run &&
                               program.ops[steps[i + 1].index].has(OverlapFollower);
      if (!groupGoesOn)
        giveBack();
    }
    table.boundaries = boundaryPool.size();
    table.saveds = savedPool.size();
    table.pendings = pendingPool.size();
    return std::move(table);
  }

private:
  using RuntimeOp = runtime::Op;

  Held &held(uint32_t stage, uint32_t microbatch) {
    // Stages of a device are few, so pairs are found by microbatch in a table per stage that is here.
    if (tables.empty())
      tables.resize(program.stages);
    if (tables[stage].empty())
      tables[stage].resize(program.microbatches);
    return tables[stage][microbatch];
  }

  void row(RuntimeOp kind, const Op &op, uint32_t a = noSlot, uint32_t b = noSlot, uint32_t c = noSlot,
           uint32_t d = noSlot, uint8_t flags = 0) {
    table.rows.push_back({kind, flags, op.stage, op.microbatch, a, b, c, d});
  }

  void runOp(const Op &op) {
    switch (op.kind) {
    case OpKind::Forward:
      return forward(op);
    case OpKind::Backward:
      return backward(op, RuntimeOp::Backward);
    case OpKind::BackwardInput:
      return backward(op, RuntimeOp::BackwardInput);
    case OpKind::BackwardWeight:
      row(RuntimeOp::BackwardWeight, op, noSlot, noSlot, noSlot, held(op.stage, op.microbatch).pending);
      return release(freedPendings, held(op.stage, op.microbatch).pending);
    case OpKind::Recompute:
      return recompute(op);
    case OpKind::Drop:
      return drop(op);
    case OpKind::Zero:
      return row(RuntimeOp::Zero, op);
    case OpKind::Reduce:
      return row(RuntimeOp::Reduce, op);
    case OpKind::Update:
      return row(RuntimeOp::Update, op);
    default:
      llvm_unreachable("see unknownToExecutors");
    }
  }

  void forward(const Op &op) {
    const uint32_t s = op.stage, m = op.microbatch;
    Held &here = held(s, m);
    if (s == 0) {
      here.input = boundaryPool.take();
      row(RuntimeOp::Load, op, here.input);
    } else if (here.input == noSlot) { // the stage before is on this device
      here.input = std::exchange(held(s - 1, m).output, noSlot);
    }
    assert(here.input != noSlot && "a forward without its input");

    here.output = boundaryPool.take();
    const bool keepsAll = !op.has(KeepInput) && !op.has(KeepNothing);
    if (keepsAll)
      here.saved = savedPool.take();
    const uint8_t flags =
        (op.has(KeepInput) ? runtime::KeepInput : 0) | (op.has(KeepNothing) ? runtime::KeepNothing : 0);
    row(RuntimeOp::Forward, op, here.input, here.output, here.saved, noSlot, flags);

    if (index.recompute(s, m) == noOp)
      release(freedBoundaries, here.input);
    const bool isUsed =
        s + 1 < program.stages ? index.forward(s + 1, m) != noOp : index.backward(s, m) != noOp;
    if (!isUsed)
      release(freedBoundaries, here.output);
  }

  void backward(const Op &op, RuntimeOp kind) {
    const uint32_t s = op.stage, m = op.microbatch;
    Held &here = held(s, m);
    if (s + 1 == program.stages) {
      here.gradient = boundaryPool.take();
      row(RuntimeOp::Loss, op, here.output, here.gradient);
      release(freedBoundaries, here.output);
    } else if (here.gradient == noSlot) { // the stage behind is on this device
      here.gradient = std::exchange(held(s + 1, m).inputGradient, noSlot);
    }
    assert(here.gradient != noSlot && here.saved != noSlot &&
           "a backward without its gradient or activation");

    if (s > 0)
      here.inputGradient = boundaryPool.take();
    if (kind == RuntimeOp::BackwardInput)
      here.pending = pendingPool.take();
    row(kind, op, here.gradient, here.inputGradient, here.saved, here.pending);
    release(freedBoundaries, here.gradient);
    release(freedSaveds, here.saved);
    if (s > 0 && index.backward(s - 1, m) == noOp)
      release(freedBoundaries, here.inputGradient);
  }

  void recompute(const Op &op) {
    Held &here = held(op.stage, op.microbatch);
    assert(here.input != noSlot && "a recompute without the kept input");
    here.saved = savedPool.take();
    row(RuntimeOp::Recompute, op, here.input, noSlot, here.saved);
    release(freedBoundaries, here.input);
  }

  void drop(const Op &op) {
    Held &here = held(op.stage, op.microbatch);
    row(RuntimeOp::Drop, op, noSlot, noSlot, here.saved);
    release(freedSaveds, here.saved);
    if (!op.has(sluice::KeepInput))
      release(freedBoundaries, here.input);
  }

  void communicate(const PlacedMessage &message, bool isSend) {
    const Op &op = program.ops[isSend ? message.producer : message.consumer];
    Held &here = held(op.stage, op.microbatch);
    uint32_t &slot = isSend ? (message.isGradient ? here.inputGradient : here.output)
                            : (message.isGradient ? here.gradient : here.input);
    RuntimeOp kind = message.isGradient ? RuntimeOp::SendGradient : RuntimeOp::SendActivation;
    if (!isSend) {
      slot = boundaryPool.take();
      kind = message.isGradient ? RuntimeOp::ReceiveGradient : RuntimeOp::ReceiveActivation;
    }
    row(kind, op, slot, message.channel);
    if (isSend)
      release(freedBoundaries, slot);
  }

  // Frees at the end of the op, or of the overlap it belongs to.
  static void release(std::vector<uint32_t> &list, uint32_t &slot) {
    if (slot != noSlot)
      list.push_back(std::exchange(slot, noSlot));
  }
  void giveBack() {
    giveBack(freedBoundaries, boundaryPool);
    giveBack(freedSaveds, savedPool);
    giveBack(freedPendings, pendingPool);
  }
  static void giveBack(std::vector<uint32_t> &list, SlotPool &pool) {
    for (uint32_t slot : list)
      pool.give(slot);
    list.clear();
  }

  const Program &program;
  const ProgramIndex &index;
  const PlacedCommunication &placed;
  const uint32_t device;
  SlotPool boundaryPool, savedPool, pendingPool;
  std::vector<uint32_t> freedBoundaries, freedSaveds, freedPendings;
  std::vector<std::vector<Held>> tables;
  DeviceTable table;
};

bool isContribution(runtime::Op op) {
  return op == runtime::Op::Backward || op == runtime::Op::BackwardWeight;
}

/// Sets the flags of first and last contributions. An accumulator is emptied by its update, or where a
/// schedule says `zero` anywhere, by that alone; steps follow each other, so the walk goes round twice.
void flagContributions(std::vector<Instruction> &rows, uint32_t stages, bool hasZero, bool hasUpdate) {
  std::vector<bool> isEmpty(stages, true);
  for (int round = 0; round < 2; ++round) {
    if (!hasZero && !hasUpdate)
      isEmpty.assign(stages, true);
    for (Instruction &row : rows) {
      if (isContribution(row.op)) {
        row.flags = isEmpty[row.stage] ? row.flags | runtime::FirstContribution
                                       : row.flags & ~runtime::FirstContribution;
        isEmpty[row.stage] = false;
      } else if (row.op == (hasZero ? runtime::Op::Zero : runtime::Op::Update)) {
        isEmpty[row.stage] = true;
      }
    }
  }
  std::vector<bool> isLast(stages, true);
  for (size_t i = rows.size(); i-- > 0;) {
    Instruction &row = rows[i];
    if (isContribution(row.op)) {
      if (isLast[row.stage])
        row.flags |= runtime::LastContribution;
      isLast[row.stage] = false;
    } else if (row.op == runtime::Op::Reduce || row.op == runtime::Op::Update) {
      isLast[row.stage] = true;
    }
  }
}

runtime::Uses usesOf(const Program &program) {
  runtime::Uses uses{};
  for (const Op &op : program.ops) {
    uses.backward |= op.kind == OpKind::Backward;
    uses.splitBackward |= op.kind == OpKind::BackwardInput || op.kind == OpKind::BackwardWeight;
    uses.recompute |= op.kind == OpKind::Recompute;
    uses.zero |= op.kind == OpKind::Zero;
    uses.reduce |= op.kind == OpKind::Reduce;
    uses.update |= op.kind == OpKind::Update;
  }
  for (uint32_t stage = 0; stage < program.stages; ++stage)
    uses.copies |= program.devicesOf(stage).size() > 1;
  return uses;
}

} // namespace

/// The sum of `counts` over all replicas, or as many as there are microbatches; nothing beyond 64 bits.
static std::optional<int64_t> total(const Program &program, const CostModel &costs,
                                    const std::vector<int64_t> &counts) {
  const int64_t replicas = costs.replicas.value_or(1);
  int64_t sum = 0, all = 0;
  for (uint32_t m = 0; m < program.wholeMicrobatches(); ++m)
    if (__builtin_add_overflow(sum, counts.empty() ? 1 : counts[m], &sum))
      return std::nullopt;
  return __builtin_mul_overflow(sum, replicas, &all) ? std::nullopt : std::optional(all);
}

std::vector<LossFactor> lossFactors(const Program &program, const CostModel &costs) {
  const bool overTokens = costs.loss == "mean over tokens";
  const std::vector<int64_t> &counts = overTokens ? costs.tokens : costs.samples;
  const int64_t all = std::max<int64_t>(total(program, costs, counts).value_or(1), 1);
  const int64_t microbatches = program.wholeMicrobatches() * costs.replicas.value_or(1);
  std::vector<LossFactor> factors;
  for (uint32_t unit = 0; unit < program.microbatches; ++unit) {
    const uint32_t m = unit / program.sequenceSplits; // splits carry the factor of their microbatch
    const int64_t count = counts.empty() ? 1 : counts[m];
    // Of the mean over its samples (tokens), or of the sum: the gradient of that counts for each of them.
    const int64_t own = costs.microbatchLossIsSum ? 1 : count;
    if (costs.loss == "sum")
      factors.push_back({own, 1});
    else if (costs.loss == "mean over microbatches")
      factors.push_back(
          {1, costs.microbatchLossIsSum ? microbatches * std::max<int64_t>(count, 1) : microbatches});
    else
      factors.push_back({own, all});
  }
  return factors;
}

/// What of one op an executor does not know yet; empty: it knows it.
static llvm::StringRef unknownOp(const Op &op) {
  if (op.isCommunication() || op.kind == OpKind::Unshard || op.kind == OpKind::Reshard)
    return "an executor with written sends, receives, unshard or reshard";
  if (op.isStarted() || op.isWait())
    return "an executor that starts an op and waits for it later";
  if (op.hasFactor())
    return "an executor that scales gradients, where a schedule says `scale`";
  if (op.overwrites())
    return "an executor whose backwards overwrite the gradients of the step before";
  switch (op.kind) {
  case OpKind::Offload:
  case OpKind::Reload:
    return "an executor that moves activations to the host and back";
  case OpKind::ReduceTied:
    return "an executor that reduces tied weights";
  case OpKind::Norm:
    return "an executor that takes the norm of gradients";
  default:
    return "";
  }
}

/// What of the training an executor does not know yet.
static llvm::StringRef unknownTraining(const Program &program, const CostModel &costs) {
  if (costs.asynchronous)
    return "an executor with asynchronous semantics, which keeps versions of weights";
  if (costs.scaling != TrainingTerms::Scaling::Loss)
    return "an executor that scales anything but the loss of each microbatch (`scale`)";
  if (costs.reductionIsMean)
    return "an executor whose reductions take the mean (`reduction`)";
  if (costs.isSharded || costs.isCopied)
    return "an executor whose reductions leave shards or copies (`reduced`)";
  if (costs.keepsContributions)
    return "an executor that keeps contributions apart (`contributions`)";
  if (costs.reshardsAfterReduce)
    return "an executor whose reductions drop the gathered weights (`after_reduce`)";
  const bool overTokens = costs.loss == "mean over tokens";
  if (!total(program, costs, overTokens ? costs.tokens : costs.samples))
    return "an executor with more than 2^63 samples or tokens in a step";
  return "";
}

llvm::StringRef unknownToExecutors(const Program &program, const CostModel &costs) {
  if (llvm::StringRef training = unknownTraining(program, costs); !training.empty())
    return training;
  if (program.sequenceSplits > 1)
    return "an executor with sequence splits, which hands what a stage keeps from one split to the next";
  if (!program.buffers.empty())
    return "an executor with the buffers that a schedule declares";
  if (!program.skips.empty())
    return "an executor with edges that pass over a stage";
  if (llvm::any_of(program.ties, [](const TiedWeight &tied) { return tied.stages.size() > 1; }))
    return "an executor with tied weights, which several stages share";
  for (const Op &op : program.ops)
    if (llvm::StringRef what = unknownOp(op); !what.empty())
      return what;
  return "";
}

std::optional<ExecutorTables> assignSlots(const Program &program, const CostModel &costs) {
  const ProgramIndex index(program);
  const std::optional<PlacedCommunication> placed = inferCommunication(program, index);
  if (!placed)
    return std::nullopt;

  ExecutorTables tables;
  tables.stages = program.stages;
  tables.microbatches = program.microbatches;
  tables.lossFactors = lossFactors(program, costs);
  tables.uses = usesOf(program);
  for (const MessageChannel &channel : placed->channels)
    tables.channels.push_back({channel.from, channel.to});
  for (uint32_t stage = 0; stage < program.stages; ++stage)
    for (uint32_t device : program.devicesOf(stage))
      tables.copies.push_back({stage, device});
  for (uint32_t device = 0; device < program.devices; ++device) {
    uint32_t boundaries = DeviceLowering(program, index, *placed, device, 0).run().boundaries;
    for (const MessageChannel &channel : placed->channels)
      if (channel.from == device) {
        ++boundaries;
        break;
      }
    tables.devices.push_back(DeviceLowering(program, index, *placed, device, boundaries).run());
    flagContributions(tables.devices.back().rows, program.stages, tables.uses.zero, tables.uses.update);
  }
  return tables;
}

} // namespace sluice
