// 401 to 404, 406 and 408 to 411: what is wrong with written sends and receives, before it is put into
// words (CommunicationFindings.cpp).
#include "Verify/CommunicationFindings.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace sluice {

static bool isOn(const Program &program, OpId op, uint32_t device) {
  return op != noOp && op >= program.deviceBegin[device] && op < program.deviceBegin[device + 1];
}

/// Posts of one message at one of its ends, in program order.
static std::vector<OpId> postsOf(OpId first, llvm::ArrayRef<OpId> repeats, const Op &like,
                                 const Program &program) {
  std::vector<OpId> posts;
  if (first != noOp)
    posts.push_back(first);
  for (OpId id : repeats)
    if (program.ops[id].kind == like.kind && program.ops[id].stage == like.stage &&
        program.ops[id].microbatch == like.microbatch && program.ops[id].namesPeer() == like.namesPeer())
      posts.push_back(id);
  return posts;
}

/// Messages posted more often than once: of each kind of post what the other side does not match is 401 or
/// 402, and where both sides match, 411.
static void findRepeats(const VerifyContext &context, const MessageEnds &messages,
                        std::vector<Fault> &faults) {
  const Program &program = context.program;
  llvm::DenseMap<size_t, std::vector<OpId>> byMessage;
  for (OpId id : messages.repeats())
    byMessage[messages.indexOf(messageOf(program, id))].push_back(id);
  for (auto &[index, repeats] : byMessage) {
    const Message message = messageOf(program, repeats.front());
    const Op sendOp = sendOf(message), receiveOp = receiveOf(message);
    std::vector<OpId> sends = postsOf(messages.send(message), repeats, sendOp, program);
    std::vector<OpId> receives = postsOf(messages.receive(message), repeats, receiveOp, program);
    if (sends.empty() || receives.empty())
      continue; // the first of them is reported as unmatched
    auto add = [&](Rule rule, const std::vector<OpId> &posts, size_t at) {
      const Op &op = program.ops[posts[at]];
      faults.push_back({rule, 1, program.deviceOf(posts[at]), op.stage, op.microbatch, posts[at], posts[0]});
    };
    if (sends.size() > receives.size())
      add(Rule::UnmatchedSend, sends, receives.size());
    else if (receives.size() > sends.size())
      add(Rule::UnmatchedReceive, receives, sends.size());
    else
      add(Rule::SentTwice, sends, 1);
  }
}

/// Drops between a started send of the same value and the wait for it.
static void findFreed(const VerifyContext &context, const MessageEnds &messages, std::vector<Fault> &faults) {
  const Program &program = context.program;
  for (uint32_t device = 0; device < program.devices; ++device)
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
      const Op &op = program.ops[id];
      if (op.kind != OpKind::Drop)
        continue;
      for (uint32_t to = op.stage + 1u; to < program.stages; ++to) {
        const OpId send = messages.send({op.stage, to, op.microbatch, false});
        const bool isBefore =
            send != noOp && program.ops[send].isStarted() && send < id && send >= program.deviceBegin[device];
        if (const OpId end = isBefore ? messages.endOf(send) : id; isBefore && (end == noOp || id < end)) {
          faults.push_back({Rule::FreedBeforeSent, 0, device, op.stage, op.microbatch, id, send});
          break;
        }
        if (program.skips.empty())
          break; // the chain's alone
      }
    }
}

/// What both ends of a message say of its size, where imported orders do.
static void findPayloads(const VerifyContext &context, const MessageEnds &messages,
                         std::vector<Fault> &faults) {
  const Program &program = context.program;
  llvm::DenseMap<OpId, int64_t> bytes;
  for (const OpPayload &payload : program.payloads)
    bytes[payload.op] = payload.bytes;
  for (const OpPayload &payload : program.payloads) {
    if (!program.ops[payload.op].isSend())
      continue;
    auto received = bytes.find(messages.receive(messageOf(program, payload.op)));
    if (received == bytes.end() || received->second == payload.bytes)
      continue;
    const Op &op = program.ops[payload.op];
    faults.push_back({Rule::PayloadMismatch, 0, program.deviceOf(payload.op), op.stage, op.microbatch,
                      payload.op, received->first});
  }
}

/// A send behind its producer, both ends of a message, and nothing freed under way.
static void checkPost(const VerifyContext &context, const MessageEnds &messages, OpId id, uint32_t device,
                      std::vector<Fault> &faults) {
  const Program &program = context.program;
  const Op &op = program.ops[id];
  auto add = [&](Rule rule, OpId other) {
    faults.push_back({rule, 0, device, op.stage, op.microbatch, id, other});
  };
  const Message message = messageOf(program, id);
  if (id == messages.receive(message)) {
    if (messages.send(message) == noOp)
      add(Rule::UnmatchedReceive, noOp);
    return;
  }
  if (id != messages.send(message))
    return;
  const OpId producer = message.isGradient ? context.index.backward(op.stage, op.microbatch)
                                           : context.index.forward(op.stage, op.microbatch);
  if (isOn(program, producer, device) && producer > id)
    add(Rule::SentBeforeMade, producer);
  if (messages.receive(message) == noOp)
    add(Rule::UnmatchedSend, noOp);
}

std::vector<Fault> findCommunicationFaults(const VerifyContext &context, const MessageEnds &messages) {
  const Program &program = context.program;
  std::vector<Fault> faults;
  for (OpId id : messages.withoutPeer()) {
    const Op &op = program.ops[id];
    faults.push_back({Rule::NoPeer, 0, program.deviceOf(id), op.stage, op.microbatch, id, noOp});
  }
  findRepeats(context, messages, faults);
  findPayloads(context, messages, faults);
  if (messages.hasStarts())
    findFreed(context, messages, faults);
  for (uint32_t device = 0; device < program.devices; ++device)
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
      const Op &op = program.ops[id];
      if (op.isCommunication()) {
        if (!op.isWait())
          checkPost(context, messages, id, device, faults);
        continue;
      }
      for (const Message &input : inputsOf(program, op)) {
        if (program.deviceOf(input.from, input.microbatch) == device)
          continue;
        const OpId receive = messages.receive(input);
        const OpId end = receive == noOp ? noOp : messages.endOf(receive);
        // A start without its wait is 309.
        const bool isLate = receive != noOp && (receive > id || (end != noOp && end > id));
        if (receive == noOp || isLate)
          faults.push_back({Rule::UsedBeforeReceived, receive == noOp, device, op.stage, op.microbatch, id,
                            receive == noOp ? messages.send(input)
                            : receive > id  ? receive
                                            : end});
      }
    }
  return faults;
}

void verifyCommunication(VerifyContext &context) {
  // Ops on a wrong device have taken over the places that messages would be looked up by.
  if (!context.program.isExplicit || context.hasMisplacedOps)
    return;
  const MessageEnds messages(context.program);
  CommunicationReport(context, messages).run(findCommunicationFaults(context, messages));
}

} // namespace sluice
