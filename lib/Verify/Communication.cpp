// 401, 402, 403, 406, 408, 409 and 411: what is wrong with written sends and receives, before it is put into
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
        program.ops[id].microbatch == like.microbatch)
      posts.push_back(id);
  return posts;
}

/// Messages posted more often than once: of each kind of post what the other side does not match is 401 or
/// 402, and where both sides match, 411.
static void findRepeats(const VerifyContext &context, const Messages &messages, std::vector<Fault> &faults) {
  const Program &program = context.program;
  llvm::DenseMap<size_t, std::vector<OpId>> byMessage;
  for (OpId id : messages.repeats())
    byMessage[messages.indexOf(messageOf(program.ops[id]))].push_back(id);
  for (auto &[index, repeats] : byMessage) {
    const Op &any = program.ops[repeats.front()];
    const Message message = messageOf(any);
    const Op sendOp = any.isSend() ? any : partnerOf(any), receiveOp = any.isSend() ? partnerOf(any) : any;
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

std::vector<Fault> findCommunicationFaults(const VerifyContext &context, const Messages &messages) {
  const Program &program = context.program;
  std::vector<Fault> faults;
  for (OpId id : messages.withoutPeer()) {
    const Op &op = program.ops[id];
    faults.push_back({Rule::NoPeer, 0, program.deviceOf(id), op.stage, op.microbatch, id, noOp});
  }
  findRepeats(context, messages, faults);
  for (uint32_t device = 0; device < program.devices; ++device)
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
      const Op &op = program.ops[id];
      auto add = [&](Rule rule, uint8_t cause, OpId other) {
        faults.push_back({rule, cause, device, op.stage, op.microbatch, id, other});
      };
      if (op.isCommunication()) {
        const Message message = messageOf(op);
        if (id == messages.send(message)) {
          const OpId producer = message.isGradient ? context.index.backward(op.stage, op.microbatch)
                                                   : context.index.forward(op.stage, op.microbatch);
          if (isOn(program, producer, device) && producer > id)
            add(Rule::SentBeforeMade, 0, producer);
          if (messages.receive(message) == noOp)
            add(Rule::UnmatchedSend, 0, noOp);
        } else if (id == messages.receive(message) && messages.send(message) == noOp) {
          add(Rule::UnmatchedReceive, 0, noOp);
        }
      } else if (std::optional<Message> input = inputOf(program, op);
                 input && program.deviceOf(input->stage, input->microbatch) != device) {
        const OpId receive = messages.receive(*input);
        if (receive == noOp || receive > id)
          add(Rule::UsedBeforeReceived, receive == noOp, receive == noOp ? messages.send(*input) : receive);
      }
    }
  return faults;
}

void verifyCommunication(VerifyContext &context) {
  // Ops on a wrong device have taken over the places that messages would be looked up by.
  if (!context.program.isExplicit || context.hasMisplacedOps)
    return;
  const Messages messages(context.program);
  CommunicationReport(context, messages).run(findCommunicationFaults(context, messages));
}

} // namespace sluice
