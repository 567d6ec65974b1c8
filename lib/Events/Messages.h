// Messages: one stage's output, or input gradient, for one microbatch, crossing an edge of the model. The
// edges are the chain's and the skip edges; activations flow towards later stages, gradients back.
#pragma once

#include "IR/Program.h"

namespace sluice {

struct Message {
  uint32_t from = 0, to = 0; ///< Stages: that makes the value, and that uses it.
  uint32_t microbatch = 0;
  bool isGradient = false;

  friend bool operator==(const Message &, const Message &) = default;
};

/// What a send or receive carries. In front of the first stage or behind the last a number of a stage that
/// does not exist stands for the other end (406).
Message messageOf(const Program &program, OpId id);
/// The ops at the two ends of a message: `to` and `from` are written where they are no neighbours.
Op sendOf(const Message &message);
Op receiveOf(const Message &message);
/// `send_activation(0, 3)`, or `send_activation(0, 3) to 2` over a skip edge.
std::string sendText(const Message &message);
std::string receiveText(const Message &message);

/// The directed edges of a program, numbered: those of the chain, then skip edges; each has a number for its
/// activations and one for its gradients.
class MessageEdges {
public:
  explicit MessageEdges(const Program &program);
  static constexpr uint32_t none = ~0u;

  uint32_t count() const { return 2 * (stages + static_cast<uint32_t>(skips.size())); }
  /// The number of a message's edge; `none` if the model has no such edge, or nothing flows back over it.
  uint32_t of(const Message &message) const {
    const uint32_t low = message.isGradient ? message.to : message.from;
    const uint32_t high = message.isGradient ? message.from : message.to;
    if (high >= stages || low >= stages)
      return none;
    return high == low + 1 ? 2 * low + message.isGradient : ofSkip(low, high, message.isGradient);
  }

private:
  uint32_t ofSkip(uint32_t low, uint32_t high, bool isGradient) const;
  uint32_t stages;
  llvm::ArrayRef<SkipEdge> skips;
};

} // namespace sluice
