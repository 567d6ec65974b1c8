// Faults of written communication in words. Internal to lib/Verify.
#pragma once

#include "Verify/Communication.h"

#include "llvm/ADT/DenseMap.h"

namespace sluice {

/// 401, 402, 404, 406 and 408 to 411, several of one cause among them. Fault::op is the post or, in 408, the
/// op that uses the value, in 410 the one that frees it; Fault::other: 404 the receive, 408 the late receive
/// or wait, or the send that nothing receives, 409 the producer, 410 the send, else the first post of the
/// message. Fault::cause tells posts without a partner (0) from one too many (1), and late receives (0) from
/// none (1). Linear in ops.
std::vector<Fault> findCommunicationFaults(const VerifyContext &context, const MessageEnds &messages);

class CommunicationReport {
public:
  CommunicationReport(VerifyContext &context, const MessageEnds &messages)
      : context(context), program(context.program), messages(messages), key(context.costs.channels.key),
        channels(channelsOf(context.program, messages, key)) {}

  /// Adds the crossed channels (403), reduces all to first causes and reports them.
  void run(std::vector<Fault> faults);

private:
  void findCrossings(llvm::ArrayRef<Fault> faults);
  bool isExplained(const Fault &fault) const;
  void takeConsequences(std::vector<Fault> &faults);
  Message messageAt(const Fault &fault) const;
  const Channel &channelOf(OpId post);

  void unmatched(const FaultGroup &group);
  void crossed(const FaultGroup &group);
  void noPeer(const FaultGroup &group);
  void usedBeforeReceived(const FaultGroup &group);
  void sentBeforeMade(const FaultGroup &group);
  void sentTwice(const FaultGroup &group);
  void freedBeforeSent(const FaultGroup &group);
  void payloadMismatch(const FaultGroup &group);
  void noteShift(const Channel &channel, const Fault &fault, Finding &finding);
  void noteUsers(OpId cause, Finding &finding);
  const char *finerKey(const Channel &channel) const;
  std::string valueText(const Message &message) const;

  VerifyContext &context;
  const Program &program;
  const MessageEnds &messages;
  const ChannelRules::Key key;
  const std::vector<Channel> channels;
  llvm::DenseMap<OpId, std::pair<const Channel *, Crossing>> crossings; ///< By the send of the first pair.
  llvm::DenseMap<OpId, const Channel *> channelOfPost;
  llvm::DenseMap<OpId, std::vector<OpId>> usersOf; ///< Ops that lack a value because of a fault, by its op.
};

} // namespace sluice
