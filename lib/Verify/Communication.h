// Written sends and receives: do they meet, in one order, behind what they carry and before who needs it?
// Pairing is by order alone, since channels have no tags: on each channel the n-th send belongs to the n-th
// receive. Internal to lib/Verify.
#pragma once

#include "Verify/Faults.h"
#include "Verify/Messages.h"

namespace sluice {

/// All messages from one device to another, or under finer keys a part of them: posted on both sides in
/// program order.
struct Channel {
  uint32_t from = 0, to = 0;
  std::vector<OpId> sends, receives;
};

/// By sender and receiver, with the posts of all ops that have a peer. Of `pair` the two directions differ,
/// as posts pair in each of them apart. Linear in ops.
std::vector<Channel> channelsOf(const Program &program, const MessageEnds &messages, ChannelRules::Key key);

/// `0 -> 1`, as findings name it.
std::string str(const Channel &channel);

/// A place where the two sides of a channel go apart.
struct Crossing {
  size_t position; ///< Among the messages that both sides post.
  OpId send, receive;
  uint64_t count; ///< Pairs of the channel that differ, this one included.
};
/// Compares what both sides of a channel post once; nothing if they agree. Posts in `skipped` (a bit for
/// each op) are passed over.
std::optional<Crossing> crossingOf(const Program &program, const Channel &channel,
                                   const llvm::DenseSet<OpId> &skipped);

} // namespace sluice
