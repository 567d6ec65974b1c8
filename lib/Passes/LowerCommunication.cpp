#include "Passes/LowerCommunication.h"

#include "Passes/Rewrite.h"
#include "Passes/Rounds.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <cassert>
#include <deque>

namespace sluice {

namespace {

/// What an op makes for a stage on another device: its send, who takes it there, and the receive.
struct Handover {
  OpId consumer = noOp;
  uint32_t device = noDevice;
  Op send = {OpKind::SendActivation}, receive = {OpKind::RecvActivation};
  bool isSkip = false; ///< Both ends name the stage at the other.
};

/// Calls `visit` for each handover of `op` of `device`: along the chain, then over skip edges, ascending. The
/// consumer itself is not looked at: it may be far from the caches, and all there is to know of it follows
/// from `op`.
template <typename Visit>
void eachHandover(const Program &program, const ProgramIndex &index, uint32_t device, const Op &op,
                  Visit visit) {
  const bool isForward = op.kind == OpKind::Forward;
  auto hand = [&](OpId consumer, uint32_t stage, uint8_t flags) {
    const uint32_t to = program.deviceOf(stage, op.microbatch);
    if (to == device)
      return;
    const OpKind send = isForward ? OpKind::SendActivation : OpKind::SendGradient;
    const OpKind receive = isForward ? OpKind::RecvActivation : OpKind::RecvGradient;
    visit(Handover{consumer,
                   to,
                   {send, flags, op.stage, op.microbatch},
                   {receive, flags, static_cast<uint16_t>(stage), op.microbatch},
                   flags != 0});
  };
  if (const OpId consumer = consumerOf(program, index, op); consumer != noOp)
    hand(consumer, isForward ? op.stage + 1u : op.stage - 1u, 0);
  if (program.skips.empty() || !(isForward || op.makesGradient()))
    return;
  for (const SkipEdge &skip : program.skips) {
    if (isForward ? skip.from != op.stage : skip.to != op.stage || !skip.hasGradient)
      continue;
    const uint32_t stage = isForward ? skip.to : skip.from;
    const OpId consumer =
        isForward ? index.forward(stage, op.microbatch) : index.backward(stage, op.microbatch);
    if (consumer != noOp)
      hand(consumer, stage, NamesPeer);
  }
}

std::optional<Program> placeEarly(const Program &program, const ProgramIndex &index, bool withPlaces) {
  // Sizes first: then every device writes into its own part of the columns.
  std::vector<uint32_t> length(program.devices);
  for (uint32_t d = 0; d < program.devices; ++d) {
    length[d] += program.deviceBegin[d + 1] - program.deviceBegin[d];
    for (const Op &op : program.opsOf(d))
      eachHandover(program, index, d, op, [&](const Handover &made) {
        ++length[d];
        ++length[made.device];
      });
  }
  const bool hasSites = withPlaces && !program.siteOf.empty();
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
    return id;
  };
  std::vector<OpPeer> peers;
  if (!runInRounds(program, index, [&](uint32_t device, OpId begin, OpId stop) {
        for (OpId op = begin; op < stop; ++op)
          append(device, program.ops[op], op);
        for (OpId op = begin; op < stop; ++op)
          eachHandover(program, index, device, program.ops[op], [&](const Handover &made) {
            const OpId send = append(device, made.send, op);
            const OpId receive = append(made.device, made.receive, made.consumer);
            if (made.isSkip) {
              peers.push_back({send, made.receive.stage});
              peers.push_back({receive, made.send.stage});
            }
          });
      }))
    return std::nullopt;
  copyNames(program, result);
  llvm::sort(peers, [](const OpPeer &a, const OpPeer &b) { return a.op < b.op; });
  result.peers = std::move(peers);
  return result;
}

class JustInTime {
public:
  JustInTime(const Program &program, const ProgramIndex &index, bool withPlaces)
      : program(program), index(index), withPlaces(withPlaces), isReceived(program.size()) {
    size_t messages = 0;
    for (uint32_t d = 0; d < program.devices; ++d)
      for (const Op &op : program.opsOf(d))
        eachHandover(program, index, d, op, [&](const Handover &made) {
          channel(d, made.device).messages.push_back({made.consumer, op.stage});
          ++messages;
        });
    total = program.size() + 2 * messages;
  }

  Program run() {
    Rewriter writer(program, total, withPlaces);
    for (uint32_t d = 0; d < program.devices; ++d) {
      writer.beginDevice();
      for (OpId begin = program.deviceBegin[d]; begin < program.deviceBegin[d + 1];) {
        const OpId end = std::min(program.groupEnd(begin), program.deviceBegin[d + 1]);
        receiveFor(d, begin, end, writer);
        writer.copy(begin, end);
        for (OpId op = begin; op < end; ++op)
          eachHandover(program, index, d, program.ops[op], [&](const Handover &made) {
            writer.insert(made.send, op);
            if (made.isSkip)
              writer.namePeer(made.receive.stage);
          });
        begin = end;
      }
    }
    Program result = writer.take();
    result.isExplicit = true;
    return result;
  }

private:
  /// What `consumer` takes from stage `from`.
  struct Message {
    OpId consumer;
    uint32_t from;
    friend bool operator==(const Message &, const Message &) = default;
  };
  /// Messages of one device to another in the order of their sends.
  struct Channel {
    std::vector<Message> messages;
    size_t received = 0;
    bool isEmpty() const { return received == messages.size(); }
    const Message &head() const { return messages[received]; }
  };

  Channel &channel(uint32_t from, uint32_t to) {
    auto [found, isNew] = channelOf.try_emplace(uint64_t(from) << 32 | to, channels.size());
    if (isNew)
      channels.emplace_back();
    return channels[found->second];
  }

  bool isSkip(const Message &message) const {
    const Op &op = program.ops[message.consumer];
    return op.kind == OpKind::Forward ? message.from + 1u != op.stage : message.from != op.stage + 1u;
  }
  bool hasCome(const Message &message) const {
    return isSkip(message) ? skipsReceived.contains({message.consumer, message.from})
                           : isReceived[message.consumer];
  }
  void receive(const Message &message, Rewriter &writer) {
    const Op &op = program.ops[message.consumer];
    const OpKind kind = op.kind == OpKind::Forward ? OpKind::RecvActivation : OpKind::RecvGradient;
    if (!isSkip(message)) {
      isReceived[message.consumer] = true;
      return writer.insert({kind, 0, op.stage, op.microbatch}, message.consumer);
    }
    skipsReceived.insert({message.consumer, message.from});
    writer.insert({kind, NamesPeer, op.stage, op.microbatch}, message.consumer);
    writer.namePeer(message.from);
  }

  /// Receives what the ops from `begin` to `end` need, and whatever was sent before it on the same channel.
  /// Of several channels the one whose next message is needed soonest goes first. An op that is written twice
  /// (203) was sent to once: where nothing is left on its channel, it goes without.
  void receiveFor(uint32_t device, OpId begin, OpId end, Rewriter &writer) {
    llvm::SmallVector<std::pair<Message, Channel *>, 2> needs;
    for (OpId op = begin; op < end; ++op)
      eachRemoteInput(device, program.ops[op], [&](uint32_t stage, uint32_t from) {
        if (const Message message{op, stage}; !hasCome(message))
          needs.push_back({message, &channel(from, device)});
      });
    auto isDone = [&](const auto &need) { return hasCome(need.first) || need.second->isEmpty(); };
    llvm::erase_if(needs, isDone);
    while (!needs.empty()) {
      auto first = std::min_element(needs.begin(), needs.end(), [](const auto &a, const auto &b) {
        return a.second->head().consumer < b.second->head().consumer;
      });
      const Message next = first->second->head();
      ++first->second->received;
      receive(next, writer);
      llvm::erase_if(needs, isDone);
    }
  }

  /// Calls `visit(stage, device)` for each stage of another device that makes what `op` of `device` takes:
  /// along the chain, then over skip edges, ascending.
  template <typename Visit> void eachRemoteInput(uint32_t device, const Op &op, Visit visit) const {
    const bool isForward = op.kind == OpKind::Forward;
    if (!isForward && !op.makesGradient())
      return;
    auto take = [&](uint32_t stage) { // the producer is not looked at either, see eachHandover
      if ((isForward ? index.forward(stage, op.microbatch) : index.backward(stage, op.microbatch)) == noOp)
        return;
      if (const uint32_t from = program.deviceOf(stage, op.microbatch); from != device)
        visit(stage, from);
    };
    if (isForward ? op.stage > 0 : op.stage + 1u < program.stages)
      take(isForward ? op.stage - 1u : op.stage + 1u);
    for (const SkipEdge &skip : program.skips)
      if (isForward ? skip.to == op.stage : skip.from == op.stage && skip.hasGradient)
        take(isForward ? skip.from : skip.to);
  }

  const Program &program;
  const ProgramIndex &index;
  const bool withPlaces;
  std::vector<bool> isReceived;                            // per consumer: its message of the chain
  llvm::DenseSet<std::pair<OpId, uint32_t>> skipsReceived; // consumer and stage
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
                                          CommunicationPlacement placement, bool withPlaces) {
  if (program.isExplicit)
    return program;
  if (placement == CommunicationPlacement::JustInTime)
    return JustInTime(program, index, withPlaces).run();
  if (placement == CommunicationPlacement::Deferred && !program.skips.empty())
    return std::nullopt;
  std::optional<Program> early = placeEarly(program, index, withPlaces);
  if (!early || placement == CommunicationPlacement::Early)
    return early;
  return Deferral(*early).run();
}

} // namespace sluice
