#include "Passes/MessageChannels.h"

#include "llvm/ADT/STLExtras.h"

namespace sluice {

static constexpr uint32_t unknown = ~0u;

MessageChannels::MessageChannels(const Program &program, ChannelRules::Key key) : program(program), key(key) {
  using Key = ChannelRules::Key;
  const size_t rows = key == Key::Message ? program.microbatches : program.placement.rowCount();
  channelOf.assign(rows * edgeCount(), unknown);
  std::vector<std::pair<Message, size_t>> found; // one each, and by what it is found again
  for (OpId id = 0; id < program.size(); ++id) {
    const Op &op = program.ops[id];
    if (!op.isSend() || op.isWait())
      continue;
    const uint32_t edge = edgeOf(id);
    const size_t slot = slotOf(edge, op.microbatch);
    if (channelOf[slot] != unknown)
      continue;
    channelOf[slot] = 0;
    Message message = messageOf(id, edge);
    if (key != Key::Message)
      message.microbatch = 0;
    if (key == Key::Direction || key == Key::Pair)
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

uint32_t MessageChannels::of(OpId id) const {
  return channelOf[slotOf(edgeOf(id), program.ops[id].microbatch)];
}

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

/// Twice the lower stage, or for skip edges the number behind all stages; gradients odd.
uint32_t MessageChannels::edgeOf(OpId id) const {
  const Op &op = program.ops[id];
  const bool isGradient = op.kind == OpKind::SendGradient || op.kind == OpKind::RecvGradient;
  if (const uint32_t skip = skipOf(id); skip != noSkip)
    return 2 * (program.stages + skip) + isGradient;
  const uint32_t peer = program.peerStageOf(id);
  return 2 * std::min<uint32_t>(op.stage, peer) + isGradient;
}

MessageChannels::Message MessageChannels::messageOf(OpId id, uint32_t edge) const {
  const Op &op = program.ops[id];
  const uint32_t here = program.deviceOf(op.stage, op.microbatch);
  const uint32_t there = program.deviceOf(program.peerStageOf(id), op.microbatch);
  return {op.isSend() ? here : there, op.isSend() ? there : here, edge, op.microbatch};
}

} // namespace sluice
