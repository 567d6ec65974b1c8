// The two ends of every written message, and what ops take from neighbour stages. Internal to lib/Verify.
#pragma once

#include "Events/Messages.h"
#include "Verify/Context.h"

#include "llvm/ADT/DenseMap.h"

namespace sluice {

/// The op at the other end of the message of a post.
std::string partnerText(const Program &program, OpId post);

/// What `op` takes from other stages, on whichever device: of a forward or backward.
llvm::SmallVector<Message, 2> inputsOf(const Program &program, const Op &op);

/// Both ends of every message, in program order. Empty for programs whose communication is inferred.
/// Four bytes a microbatch and directed edge and end; linear in ops.
class MessageEnds {
public:
  explicit MessageEnds(const Program &program);

  /// The first send, or receive, of the message that stands on a device of its own; noOp if there is none.
  OpId send(const Message &message) const { return at(sends, message); }
  OpId receive(const Message &message) const { return at(receives, message); }
  /// Where a post has ended: at its wait if it is started, else where it stands; noOp if it is never waited
  /// for.
  OpId endOf(OpId post) const;
  /// Posts of a message after the first of the same kind.
  llvm::ArrayRef<OpId> repeats() const { return repeated; }
  /// Sends and receives that have no other device to talk to (406).
  llvm::ArrayRef<OpId> withoutPeer() const { return lonely; }
  bool hasStarts() const { return hasStarted; }
  /// Of a message whose edge the program has.
  size_t indexOf(const Message &message) const {
    return static_cast<size_t>(edges.of(message)) * microbatches + message.microbatch;
  }
  const MessageEdges edges;

private:
  OpId at(const std::vector<OpId> &column, const Message &message) const {
    return column.empty() || edges.of(message) == MessageEdges::none ? noOp : column[indexOf(message)];
  }
  size_t microbatches;
  std::vector<OpId> sends, receives; // per message
  std::vector<OpId> repeated, lonely;
  llvm::DenseMap<OpId, OpId> waits; // of started posts
  std::vector<bool> isStarted;      // per op; empty if none is
  bool hasStarted = false;
};

} // namespace sluice
