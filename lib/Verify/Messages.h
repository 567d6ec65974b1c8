// Written communication as messages: one stage's output, or input gradient, for one microbatch that crosses
// to a neighbour on another device, with the ops that post its two ends. Internal to lib/Verify.
#pragma once

#include "Verify/Context.h"

namespace sluice {

struct Message {
  bool isGradient = false;
  uint32_t stage = 0; ///< That makes the value.
  uint32_t microbatch = 0;

  /// The stage that uses it: the one behind for an activation, the one before for a gradient. Wraps around
  /// to ~0 in front of the first stage.
  uint32_t user() const { return isGradient ? stage - 1 : stage + 1; }
  friend bool operator==(const Message &, const Message &) = default;
};

/// What a send or receive carries. `op.isCommunication()`.
Message messageOf(const Op &op);
/// The op at the other end of the same message: the receive of a send, the send of a receive.
Op partnerOf(const Op &op);
/// What `op` takes from a neighbour stage, on whichever device: a forward or backward. Nothing for others.
std::optional<Message> inputOf(const Program &program, const Op &op);

/// Both ends of every message, in program order. Empty for programs whose communication is inferred.
/// Eight bytes a pair of stage and microbatch and direction; linear in ops.
class Messages {
public:
  explicit Messages(const Program &program);

  /// The first send, or receive, of the message that stands on a device of its own; noOp if there is none.
  OpId send(const Message &message) const { return at(sends, message); }
  OpId receive(const Message &message) const { return at(receives, message); }
  /// Posts of a message after the first of the same kind.
  llvm::ArrayRef<OpId> repeats() const { return repeated; }
  /// Sends and receives that have no other device to talk to (406).
  llvm::ArrayRef<OpId> withoutPeer() const { return lonely; }
  /// Of a message whose stage the program has.
  size_t indexOf(const Message &message) const {
    return (static_cast<size_t>(message.isGradient) * stages + message.stage) * microbatches +
           message.microbatch;
  }

private:
  /// What a receive in front of the first stage or behind the last one would carry is no message.
  OpId at(const std::vector<OpId> &column, const Message &message) const {
    return column.empty() || message.stage >= stages ? noOp : column[indexOf(message)];
  }
  size_t stages, microbatches;
  std::vector<OpId> sends, receives; // per message: activations, then gradients
  std::vector<OpId> repeated, lonely;
};

} // namespace sluice
