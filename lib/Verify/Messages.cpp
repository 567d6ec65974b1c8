#include "Verify/Messages.h"

#include <map>

namespace sluice {

std::string partnerText(const Program &program, OpId post) {
  const Message message = messageOf(program, post);
  return program.ops[post].isSend() ? receiveText(message) : sendText(message);
}

llvm::SmallVector<Message, 2> inputsOf(const Program &program, const Op &op) {
  llvm::SmallVector<Message, 2> inputs;
  const uint32_t s = op.stage;
  if (op.kind == OpKind::Forward) {
    if (s > 0)
      inputs.push_back({s - 1, s, op.microbatch, false});
    for (const SkipEdge &skip : program.skips)
      if (skip.to == s)
        inputs.push_back({skip.from, s, op.microbatch, false});
  } else if (op.makesGradient()) {
    if (s + 1 < program.stages)
      inputs.push_back({s + 1, s, op.microbatch, true});
    for (const SkipEdge &skip : program.skips)
      if (skip.from == s && skip.hasGradient)
        inputs.push_back({skip.to, s, op.microbatch, true});
  }
  return inputs;
}

MessageEnds::MessageEnds(const Program &program) : edges(program), microbatches(program.microbatches) {
  if (!program.isExplicit)
    return;
  sends.assign(edges.count() * microbatches, noOp);
  receives.assign(edges.count() * microbatches, noOp);
  std::map<std::pair<size_t, bool>, std::vector<OpId>> open; // started posts of a message without their wait
  for (uint32_t device = 0; device < program.devices; ++device) {
    open.clear();
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
      const Op &op = program.ops[id];
      if (!op.isCommunication())
        continue;
      const Message message = messageOf(program, id);
      const uint32_t peer = op.isSend() ? message.to : message.from;
      if (edges.of(message) == MessageEdges::none || program.deviceOf(peer, op.microbatch) == device) {
        if (!op.isWait())
          lonely.push_back(id);
        continue;
      }
      const std::pair name{indexOf(message), op.isSend()};
      if (op.isWait()) {
        std::vector<OpId> &posts = open[name];
        if (!posts.empty()) {
          waits[posts.front()] = id;
          posts.erase(posts.begin());
        }
        continue;
      }
      if (op.isStarted()) {
        open[name].push_back(id);
        hasStarted = true;
      }
      OpId &end = (op.isSend() ? sends : receives)[name.first];
      if (end == noOp)
        end = id;
      else
        repeated.push_back(id);
    }
  }
  isStarted.resize(hasStarted ? program.size() : 0);
  for (OpId id = 0; id < isStarted.size(); ++id)
    isStarted[id] = program.ops[id].isCommunication() && program.ops[id].isStarted();
}

OpId MessageEnds::endOf(OpId post) const {
  if (isStarted.empty() || !isStarted[post])
    return post;
  auto found = waits.find(post);
  return found == waits.end() ? noOp : found->second;
}

} // namespace sluice
