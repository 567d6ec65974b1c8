#include "Passes/LowerCommunication.h"

#include "Passes/Rewrite.h"
#include "Passes/Rounds.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

#include <cassert>
#include <deque>

namespace sluice {

namespace {

Op sendOf(const Op &producer) {
  return {producer.kind == OpKind::Forward ? OpKind::SendActivation : OpKind::SendGradient, 0, producer.stage,
          producer.microbatch};
}

Op receiveOf(const Op &consumer) {
  return {consumer.kind == OpKind::Forward ? OpKind::RecvActivation : OpKind::RecvGradient, 0, consumer.stage,
          consumer.microbatch};
}

/// What an op makes for a neighbouring stage on another device: who takes it there, and its receive.
struct Handover {
  OpId consumer = noOp; ///< noOp: nothing crosses.
  uint32_t device = noDevice;
  Op receive = {OpKind::RecvActivation};
};

/// Of `op` of `device`. The consumer itself is not looked at: it may be far from the caches, and all there is
/// to know of it follows from `op`.
Handover handoverOf(const Program &program, const ProgramIndex &index, uint32_t device, const Op &op) {
  const OpId consumer = consumerOf(program, index, op);
  if (consumer == noOp)
    return {};
  const bool isForward = op.kind == OpKind::Forward;
  const auto stage = static_cast<uint16_t>(isForward ? op.stage + 1u : op.stage - 1u);
  const uint32_t to = program.deviceOf(stage, op.microbatch);
  if (to == device)
    return {};
  return {consumer, to, {isForward ? OpKind::RecvActivation : OpKind::RecvGradient, 0, stage, op.microbatch}};
}

std::optional<Program> placeEarly(const Program &program, const ProgramIndex &index) {
  // Sizes first: then every device writes into its own part of the columns.
  std::vector<uint32_t> length(program.devices);
  for (uint32_t d = 0; d < program.devices; ++d) {
    length[d] += program.deviceBegin[d + 1] - program.deviceBegin[d];
    for (const Op &op : program.opsOf(d))
      if (const Handover made = handoverOf(program, index, d, op); made.consumer != noOp) {
        ++length[d];
        ++length[made.device];
      }
  }
  const bool hasSites = !program.siteOf.empty();
  Program result = withoutOps(program, hasSites);
  result.isExplicit = true;
  result.deviceBegin.assign(1, 0);
  for (uint32_t d = 0; d < program.devices; ++d)
    result.deviceBegin.push_back(result.deviceBegin[d] + length[d]);
  result.ops.resize(result.deviceBegin.back());
  if (hasSites) {
    result.siteOf.resize(result.ops.size());
    result.frameOf.resize(result.ops.size());
  }
  std::vector<OpId> end(result.deviceBegin.begin(), result.deviceBegin.end() - 1);
  auto append = [&](uint32_t device, const Op &op, OpId origin) {
    const OpId id = end[device]++;
    result.ops[id] = op;
    LLVM_PREFETCH(result.ops.data() + id + 16, 1, 3);
    if (hasSites) {
      LLVM_PREFETCH(result.siteOf.data() + id + 32, 1, 3);
      LLVM_PREFETCH(result.frameOf.data() + id + 32, 1, 3);
      result.siteOf[id] = program.siteOf[origin];
      result.frameOf[id] = program.frameOf[origin];
    }
  };
  if (!runInRounds(program, index, [&](uint32_t device, OpId begin, OpId stop) {
        for (OpId op = begin; op < stop; ++op)
          append(device, program.ops[op], op);
        for (OpId op = begin; op < stop; ++op)
          if (const Handover made = handoverOf(program, index, device, program.ops[op]);
              made.consumer != noOp) {
            append(device, sendOf(program.ops[op]), op);
            append(made.device, made.receive, made.consumer);
          }
      }))
    return std::nullopt;
  copyNames(program, result);
  return result;
}

class JustInTime {
public:
  JustInTime(const Program &program, const ProgramIndex &index)
      : program(program), index(index), isReceived(program.size()) {
    size_t messages = 0;
    for (uint32_t d = 0; d < program.devices; ++d)
      for (const Op &op : program.opsOf(d))
        if (const Handover made = handoverOf(program, index, d, op); made.consumer != noOp) {
          channel(d, made.device).consumers.push_back(made.consumer);
          ++messages;
        }
    total = program.size() + 2 * messages;
  }

  Program run() {
    Rewriter writer(program, total);
    for (uint32_t d = 0; d < program.devices; ++d) {
      writer.beginDevice();
      for (OpId begin = program.deviceBegin[d]; begin < program.deviceBegin[d + 1];) {
        const OpId end = std::min(program.groupEnd(begin), program.deviceBegin[d + 1]);
        receiveFor(d, begin, end, writer);
        writer.copy(begin, end);
        for (OpId op = begin; op < end; ++op)
          if (handoverOf(program, index, d, program.ops[op]).consumer != noOp)
            writer.insert(sendOf(program.ops[op]), op);
        begin = end;
      }
    }
    Program result = writer.take();
    result.isExplicit = true;
    return result;
  }

private:
  /// Messages of one device to another in the order of their sends, by consumer.
  struct Channel {
    std::vector<OpId> consumers;
    size_t received = 0;
    bool isEmpty() const { return received == consumers.size(); }
    OpId head() const { return consumers[received]; }
  };

  Channel &channel(uint32_t from, uint32_t to) {
    auto [found, isNew] = channelOf.try_emplace(uint64_t(from) << 32 | to, channels.size());
    if (isNew)
      channels.emplace_back();
    return channels[found->second];
  }

  /// Receives what the ops from `begin` to `end` need, and whatever was sent before it on the same channel.
  /// Of several channels the one whose next message is needed soonest goes first. An op that is written twice
  /// (203) was sent to once: where nothing is left on its channel, it goes without.
  void receiveFor(uint32_t device, OpId begin, OpId end, Rewriter &writer) {
    llvm::SmallVector<std::pair<OpId, Channel *>, 2> needs;
    for (OpId op = begin; op < end; ++op)
      if (uint32_t from = remoteProducer(device, program.ops[op]); from != noDevice && !isReceived[op])
        needs.push_back({op, &channel(from, device)});
    auto isDone = [&](const auto &need) { return isReceived[need.first] || need.second->isEmpty(); };
    llvm::erase_if(needs, isDone);
    while (!needs.empty()) {
      auto first = std::min_element(needs.begin(), needs.end(), [](const auto &a, const auto &b) {
        return a.second->head() < b.second->head();
      });
      const OpId consumer = first->second->head();
      ++first->second->received;
      isReceived[consumer] = true;
      writer.insert(receiveOf(program.ops[consumer]), consumer);
      llvm::erase_if(needs, isDone);
    }
  }

  /// The other device that makes what `op` of `device` takes.
  uint32_t remoteProducer(uint32_t device, const Op &op) const {
    uint32_t stage = 0; // not looked at either, see handoverOf
    OpId producer = noOp;
    if (op.kind == OpKind::Forward && op.stage > 0)
      producer = index.forward(stage = op.stage - 1u, op.microbatch);
    else if ((op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput) &&
             op.stage + 1u < program.stages)
      producer = index.backward(stage = op.stage + 1u, op.microbatch);
    if (producer == noOp)
      return noDevice;
    const uint32_t from = program.deviceOf(stage, op.microbatch);
    return from == device ? noDevice : from;
  }

  const Program &program;
  const ProgramIndex &index;
  std::vector<bool> isReceived; // per consumer
  std::deque<Channel> channels;
  llvm::DenseMap<uint64_t, size_t> channelOf;
  size_t total = 0;
};

/// Moves the receives of an early placement back.
class Deferral {
public:
  explicit Deferral(const Program &early)
      : early(early), receives{std::vector<OpId>(pairs(), noOp), std::vector<OpId>(pairs(), noOp)} {}

  Program run() {
    Rewriter writer(early, early.size());
    for (uint32_t d = 0; d < early.devices; ++d) {
      writer.beginDevice();
      heldFrom.clear();
      for (OpId begin = early.deviceBegin[d]; begin < early.deviceBegin[d + 1];) {
        const OpId end = std::min(early.groupEnd(begin), early.deviceBegin[d + 1]);
        const Op &op = early.ops[begin];
        if (op.isCommunication() && !op.isSend()) {
          hold(d, begin);
        } else {
          if (op.isSend())
            release(d, op, writer);
          for (OpId member = begin; member < end; ++member)
            receiveFor(early.ops[member], writer);
          writer.copy(begin, end);
        }
        begin = end;
      }
    }
    return writer.take();
  }

private:
  size_t pairs() const { return static_cast<size_t>(early.stages) * early.microbatches; }
  OpId &slot(bool isGradient, uint32_t stage, uint32_t microbatch) {
    return receives[isGradient][static_cast<size_t>(stage) * early.microbatches + microbatch];
  }
  OpId &slotOf(const Op &receive) {
    return slot(receive.kind == OpKind::RecvGradient, receive.stage, receive.microbatch);
  }
  /// The device at the other end of a send or receive.
  uint32_t peerOf(const Op &op) const {
    const bool isBehind = op.kind == OpKind::SendActivation || op.kind == OpKind::RecvGradient;
    return early.deviceOf(isBehind ? op.stage + 1u : op.stage - 1u, op.microbatch);
  }

  void hold(uint32_t device, OpId receive) {
    slotOf(early.ops[receive]) = receive;
    if (uint32_t peer = peerOf(early.ops[receive]); device < peer)
      heldFrom[peer].push_back(receive);
  }
  /// Before a send to a higher device: all that is still held of what that one sends.
  void release(uint32_t device, const Op &send, Rewriter &writer) {
    const uint32_t peer = peerOf(send);
    if (device > peer)
      return;
    auto found = heldFrom.find(peer);
    if (found == heldFrom.end())
      return;
    for (OpId receive : found->second)
      place(slotOf(early.ops[receive]), writer);
    found->second.clear();
  }
  void receiveFor(const Op &op, Rewriter &writer) {
    if (op.kind == OpKind::Forward || op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput)
      place(slot(op.kind != OpKind::Forward, op.stage, op.microbatch), writer);
  }
  void place(OpId &receive, Rewriter &writer) {
    if (receive == noOp)
      return; // placed before, or nothing crosses
    writer.copy(receive);
    receive = noOp;
  }

  const Program &early;
  std::vector<OpId> receives[2];                        // held ones, by stage and microbatch; then gradients
  llvm::DenseMap<uint32_t, std::vector<OpId>> heldFrom; // of the current device, by higher peer
};

} // namespace

std::optional<Program> lowerCommunication(const Program &program, const ProgramIndex &index,
                                          CommunicationPlacement placement) {
  if (!program.isExplicit && !program.skips.empty())
    return std::nullopt;
  if (program.isExplicit)
    return program;
  if (placement == CommunicationPlacement::JustInTime)
    return JustInTime(program, index).run();
  std::optional<Program> early = placeEarly(program, index);
  if (!early || placement == CommunicationPlacement::Early)
    return early;
  return Deferral(*early).run();
}

} // namespace sluice
