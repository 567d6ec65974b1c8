#include "Passes/MessageChannels.h"

#include "llvm/ADT/STLExtras.h"

namespace sluice {

MessageChannels::MessageChannels(const Program &program, ChannelRules::Key key) : program(program), key(key) {
  std::vector<std::pair<Message, uint64_t>> found; // one each, and by what it is found again
  for (OpId id = 0; id < program.size(); ++id) {
    const Op &op = program.ops[id];
    if (!op.isSend() || op.isWait())
      continue;
    Message message = messageOf(id);
    const uint64_t slot = slotOf(message);
    if (!channelOf.try_emplace(slot, 0).second)
      continue;
    if (key != ChannelRules::Key::Message)
      message.microbatch = 0;
    if (key == ChannelRules::Key::Direction || key == ChannelRules::Key::Pair)
      message.edge = 0;
    found.emplace_back(message, slot);
  }
  llvm::sort(found);
  for (size_t i = 0; i < found.size(); ++i) {
    if (i == 0 || found[i].first != found[i - 1].first)
      all.push_back({found[i].first.from, found[i].first.to});
    channelOf[found[i].second] = static_cast<uint32_t>(all.size()) - 1;
  }
}

uint32_t MessageChannels::of(OpId id) const { return channelOf.lookup(slotOf(messageOf(id))); }

uint32_t MessageChannels::skipOf(OpId id) const {
  if (!program.ops[id].namesPeer())
    return noSkip;
  const uint32_t peer = program.peerStageOf(id), here = program.ops[id].stage;
  const auto [low, high] = std::minmax(peer, here);
  for (uint32_t skip = 0; skip < program.skips.size(); ++skip)
    if (program.skips[skip].from == low && program.skips[skip].to == high)
      return skip;
  return noSkip; // a neighbour by its name
}

MessageChannels::Message MessageChannels::messageOf(OpId id) const {
  const Op &op = program.ops[id];
  const uint32_t peer = program.peerStageOf(id);
  const bool isGradient = op.kind == OpKind::SendGradient || op.kind == OpKind::RecvGradient;
  const uint32_t from = op.isSend() ? op.stage : peer, to = op.isSend() ? peer : op.stage;
  const uint32_t skip = skipOf(id);
  const uint32_t edge = skip == noSkip ? std::min(from, to) : program.stages + skip;
  return {program.deviceOf(from, op.microbatch), program.deviceOf(to, op.microbatch), 2 * edge + isGradient,
          op.microbatch};
}

} // namespace sluice
