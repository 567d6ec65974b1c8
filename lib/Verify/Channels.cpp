// Channels of written communication, and where their two sides differ.
#include "Verify/Communication.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>

namespace sluice {

std::vector<Channel> channelsOf(const Program &program, const MessageEnds &messages, ChannelRules::Key key) {
  std::vector<Channel> channels;
  llvm::DenseMap<std::pair<uint64_t, uint64_t>, uint32_t> known;
  llvm::DenseSet<OpId> lonely;
  for (OpId id : messages.withoutPeer())
    lonely.insert(id);
  for (uint32_t device = 0; device < program.devices; ++device)
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
      const Op &op = program.ops[id];
      if (!op.isCommunication() || op.isWait() || (!lonely.empty() && lonely.contains(id)))
        continue;
      const Message message = messageOf(program, id);
      const uint32_t peer = program.deviceOf(op.isSend() ? message.to : message.from, op.microbatch);
      const uint32_t from = op.isSend() ? device : peer, to = op.isSend() ? peer : device;
      uint64_t part = 0;
      if (key == ChannelRules::Key::Edge || key == ChannelRules::Key::Message)
        part = 1 + static_cast<uint64_t>(messages.edges.of(message));
      if (key == ChannelRules::Key::Message)
        part |= static_cast<uint64_t>(message.microbatch) << 32;
      auto [found, isNew] =
          known.try_emplace({static_cast<uint64_t>(from) << 32 | to, part}, channels.size());
      if (isNew)
        channels.push_back({from, to, {}, {}});
      Channel &channel = channels[found->second];
      (op.isSend() ? channel.sends : channel.receives).push_back(id);
    }
  llvm::stable_sort(channels, [](const Channel &a, const Channel &b) {
    return std::tie(a.from, a.to) < std::tie(b.from, b.to);
  });
  return channels;
}

std::string str(const Channel &channel) { return fmt::format("{} -> {}", channel.from, channel.to); }

std::optional<Crossing> crossingOf(const Program &program, const Channel &channel,
                                   const llvm::DenseSet<OpId> &skipped) {
  std::optional<Crossing> crossing;
  size_t s = 0, r = 0;
  for (size_t position = 0;; ++position, ++s, ++r) {
    while (s < channel.sends.size() && skipped.contains(channel.sends[s]))
      ++s;
    while (r < channel.receives.size() && skipped.contains(channel.receives[r]))
      ++r;
    if (s == channel.sends.size() || r == channel.receives.size())
      return crossing;
    const OpId send = channel.sends[s], receive = channel.receives[r];
    if (messageOf(program, send) == messageOf(program, receive))
      continue;
    if (crossing)
      ++crossing->count;
    else
      crossing = Crossing{position, send, receive, 1};
  }
}

} // namespace sluice
