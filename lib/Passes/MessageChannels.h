// The channels of an executor's tables: what the schedule's channel key lets share one, each from one device
// to another. `direction` and `pair` give one per ordered pair of devices, `edge` one per pair and directed
// edge of the model (activations and gradients apart), `message` one each. The n-th send pairs with the n-th
// receive on each, as the checker pairs them.
#pragma once

#include "IR/ChannelRules.h"
#include "IR/Program.h"

#include <sluice/Schedule.h>

namespace sluice {

class MessageChannels {
public:
  /// Of a program whose communication is written; every send and receive has a peer. One pass over its ops.
  MessageChannels(const Program &program, ChannelRules::Key key);

  /// Ascending by sender, receiver, edge, microbatch.
  const std::vector<runtime::Channel> &channels() const { return all; }
  /// The channel of a send, a receive or their wait.
  uint32_t of(OpId id) const;
  /// The skip edge of a send, a receive or their wait, into Program::skips; noSkip along the chain.
  uint32_t skipOf(OpId id) const;
  static constexpr uint32_t noSkip = ~0u;

private:
  struct Message {
    uint32_t from, to, edge, microbatch; // devices, directed edge of the model
    auto operator<=>(const Message &) const = default;
  };
  uint32_t edgeOf(OpId id) const;
  uint32_t edgeCount() const { return 2 * (program.stages + static_cast<uint32_t>(program.skips.size())); }
  /// What the channel of a message follows from: its edge, and where the stages are placed for its
  /// microbatch.
  size_t slotOf(uint32_t edge, uint32_t microbatch) const {
    const uint32_t row = key == ChannelRules::Key::Message ? microbatch : program.placement.row(microbatch);
    return static_cast<size_t>(row) * edgeCount() + edge;
  }
  Message messageOf(OpId id, uint32_t edge) const;

  const Program &program;
  const ChannelRules::Key key;
  std::vector<runtime::Channel> all;
  std::vector<uint32_t> channelOf; // by slotOf
};

} // namespace sluice
