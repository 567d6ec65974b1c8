#include "Verify/CommunicationFindings.h"

#include "Support/Quantity.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"

#include <fmt/format.h>

namespace sluice {

static constexpr Rule orderOfBlame[] = {
    Rule::UnmatchedSend,   Rule::UnmatchedReceive, Rule::CrossedMessages,
    Rule::PayloadMismatch, Rule::NoPeer,           Rule::UsedBeforeReceived,
    Rule::SentBeforeMade,  Rule::FreedBeforeSent,  Rule::SentTwice};

/// The message that a post carries or that an op uses.
Message CommunicationReport::messageAt(const Fault &fault) const {
  if (program.ops[fault.op].isCommunication())
    return messageOf(program, fault.op);
  if (fault.other != noOp)
    return messageOf(program, fault.other);
  // Neither sent nor received: the first input of which that is so.
  for (const Message &input : inputsOf(program, program.ops[fault.op]))
    if (program.deviceOf(input.from, input.microbatch) != fault.device && messages.receive(input) == noOp &&
        messages.send(input) == noOp)
      return input;
  llvm_unreachable("every input of the op is there");
}

/// Looked up often only where much is wrong, so the way from posts to channels is made on first use.
const Channel &CommunicationReport::channelOf(OpId post) {
  if (channelOfPost.empty())
    for (const Channel &channel : channels)
      for (OpId id : llvm::concat<const OpId>(channel.sends, channel.receives))
        channelOfPost[id] = &channel;
  return *channelOfPost.find(post)->second;
}

std::string CommunicationReport::valueText(const Message &message) const {
  const OpId producer = message.isGradient ? context.index.backward(message.from, message.microbatch)
                                           : context.index.forward(message.from, message.microbatch);
  return fmt::format("{} {}", message.isGradient ? "the input gradient of" : "the output of",
                     producer == noOp
                         ? fmt::format("stage {}, microbatch {}", message.from, message.microbatch)
                         : opText(context, producer));
}

/// Crossings of what has a partner: a missing half shifts all that follow it, which is its own fault.
void CommunicationReport::findCrossings(llvm::ArrayRef<Fault> faults) {
  llvm::DenseSet<OpId> skipped;
  for (const Fault &fault : faults)
    if (fault.rule == Rule::UnmatchedSend || fault.rule == Rule::UnmatchedReceive)
      skipped.insert(fault.op);
  for (OpId repeat : messages.repeats())
    skipped.insert(repeat);
  for (const Channel &channel : channels)
    if (auto crossing = crossingOf(program, channel, skipped))
      crossings[crossing->send] = {&channel, *crossing};
}

/// A value that is never made, or whose user is missing, has been reported.
bool CommunicationReport::isExplained(const Fault &fault) const {
  if (fault.rule == Rule::NoPeer || fault.rule == Rule::FreedBeforeSent)
    return context.blamedPairs.contains(context.pair(fault.stage, fault.microbatch));
  const Message message = messageAt(fault);
  return context.blamedPairs.contains(context.pair(message.from, message.microbatch)) ||
         context.blamedPairs.contains(context.pair(message.to, message.microbatch));
}

/// A value that is used before it is there is a note of what keeps it away: a send that nothing receives, or
/// a channel in which messages arrive in the wrong places.
void CommunicationReport::takeConsequences(std::vector<Fault> &faults) {
  llvm::DenseMap<size_t, OpId> crossedAt; // by message
  for (auto &[send, crossing] : crossings) {
    const Channel &channel = *crossing.first;
    for (OpId id : llvm::concat<const OpId>(channel.sends, channel.receives))
      crossedAt[messages.indexOf(messageOf(program, id))] = send;
  }
  llvm::erase_if(faults, [&](const Fault &fault) {
    if (fault.rule != Rule::UsedBeforeReceived)
      return false;
    if (fault.cause == 1 && fault.other != noOp) {
      usersOf[fault.other].push_back(fault.op);
      return true;
    }
    auto crossed = crossedAt.find(messages.indexOf(messageAt(fault)));
    if (crossed == crossedAt.end())
      return false;
    usersOf[crossed->second].push_back(fault.op);
    return true;
  });
}

void CommunicationReport::run(std::vector<Fault> faults) {
  findCrossings(faults);
  for (auto &[send, crossing] : crossings) {
    const Op &op = program.ops[send];
    faults.push_back({Rule::CrossedMessages, 0, program.deviceOf(send), op.stage, op.microbatch, send,
                      crossing.second.receive});
  }
  llvm::erase_if(faults, [&](const Fault &fault) { return isExplained(fault); });
  if (faults.empty())
    return;
  const std::vector<Fault> all = faults;
  takeConsequences(faults);
  keepFirstCauses(context, Scope::Pair, orderOfBlame, faults);
  for (const FaultGroup &group : groupByLine(context, faults))
    switch (group.front().rule) {
    case Rule::UnmatchedSend:
    case Rule::UnmatchedReceive:
      unmatched(group);
      break;
    case Rule::CrossedMessages:
      // Each channel has an order of its own.
      for (const Fault &fault : group)
        crossed({fault});
      break;
    case Rule::NoPeer:
      noPeer(group);
      break;
    case Rule::UsedBeforeReceived:
      usedBeforeReceived(group);
      break;
    case Rule::SentBeforeMade:
      sentBeforeMade(group);
      break;
    case Rule::FreedBeforeSent:
      freedBeforeSent(group);
      break;
    case Rule::PayloadMismatch:
      payloadMismatch(group);
      break;
    default:
      sentTwice(group);
      break;
    }
  blame(context, all);
}

//===-- One function a rule ----------------------------------------------------------------------===//

/// Ops that the fault keeps from their input: at most three notes.
void CommunicationReport::noteUsers(OpId cause, Finding &finding) {
  auto found = usersOf.find(cause);
  if (found == usersOf.end())
    return;
  const Message carried = messageOf(program, cause);
  for (OpId user : llvm::ArrayRef(found->second).take_front(3))
    noteOp(context, finding, user, fmt::format("{} uses {}", opText(context, user), valueText(carried)));
}

/// What a missing or surplus half does to the messages behind it.
void CommunicationReport::noteShift(const Channel &channel, const Fault &fault, Finding &finding) {
  const bool isSend = fault.rule == Rule::UnmatchedSend;
  const std::vector<OpId> &own = isSend ? channel.sends : channel.receives;
  const std::vector<OpId> &others = isSend ? channel.receives : channel.sends;
  const auto position = static_cast<size_t>(llvm::find(own, fault.op) - own.begin());
  if (position >= others.size())
    return;
  const OpId send = isSend ? fault.op : others[position], receive = isSend ? others[position] : fault.op;
  if (messageOf(program, send) == messageOf(program, receive))
    return;
  noteOp(context, finding, others[position],
         fmt::format("so message {} of the channel is sent as {} and received as {}", position,
                     opText(context, send), opText(context, receive)));
}

void CommunicationReport::unmatched(const FaultGroup &group) {
  const Fault &first = group.front();
  const Channel &channel = channelOf(first.op);
  Finding &finding = report(context, group,
                            {{"op", opText(context, first.op)},
                             {"device", fmt::format("{}", first.device)},
                             {"channel", str(channel)},
                             {"sends", counted(channel.sends.size(), "send", "sends")},
                             {"receives", counted(channel.receives.size(), "receive", "receives")}});
  if (first.cause == 1)
    noteOp(context, finding, first.other,
           fmt::format("{} is posted here already", opText(context, first.other)));
  noteShift(channel, first, finding);
  noteUsers(first.op, finding);
  noteOthers(context, group, false, finding);
  finding.fix.message = first.cause == 1
                            ? "delete it"
                            : fmt::format("add {} on device {}, or delete it", partnerText(program, first.op),
                                          first.device == channel.from ? channel.to : channel.from);
}

/// The coarsest key under which nothing between the two devices crosses.
const char *CommunicationReport::finerKey(const Channel &channel) const {
  if (key == ChannelRules::Key::Edge)
    return "message";
  for (const Channel &edge : channelsOf(program, messages, ChannelRules::Key::Edge))
    if (edge.from == channel.from && edge.to == channel.to && crossingOf(program, edge, {}))
      return "message";
  return "edge";
}

void CommunicationReport::crossed(const FaultGroup &group) {
  const Fault &first = group.front();
  const auto &[channel, crossing] = crossings.find(first.op)->second;
  Finding &finding = report(context, group,
                            {{"number", fmt::format("{}", crossing.position)},
                             {"channel", str(*channel)},
                             {"send", opText(context, crossing.send)},
                             {"receive", opText(context, crossing.receive)}});
  noteOp(context, finding, crossing.receive,
         fmt::format("device {} receives {} in its place", channel->to, opText(context, crossing.receive)));
  if (crossing.count > 1)
    finding.notes.push_back(
        {fmt::format("{} of the channel {} crossed in all", counted(crossing.count, "message", "messages"),
                     crossing.count == 1 ? "is" : "are"),
         {},
         {},
         ""});
  noteUsers(first.op, finding);
  finding.fix.message =
      fmt::format("post both sides in one order, or use channel_key = {}", finerKey(*channel));
}

void CommunicationReport::noPeer(const FaultGroup &group) {
  const Fault &first = group.front();
  const Op &op = program.ops[first.op];
  const Message message = messageOf(program, first.op);
  const uint32_t peer = op.isSend() ? message.to : message.from;
  const bool isEdge = messages.edges.of(message) != MessageEdges::none;
  const bool isHere = isEdge && program.deviceOf(peer, first.microbatch) == first.device;
  const uint32_t low = message.isGradient ? message.to : message.from;
  const uint32_t high = message.isGradient ? message.from : message.to;
  const bool isForwardOnly = message.isGradient && peer < program.stages && low + 1 < high &&
                             messages.edges.of({low, high, 0, false}) != MessageEdges::none;
  std::string reason = fmt::format("there is no edge {} -> {}", low, high);
  if (isHere)
    reason = fmt::format("stage {} is on this one", peer);
  else if (isForwardOnly)
    reason = fmt::format("edge {} -> {} carries no gradient", low, high);
  else if (peer >= program.stages)
    reason = fmt::format("there is no stage {} stage {}", peer == program.stages ? "behind" : "before",
                         first.stage);
  Finding &finding = report(context, group, {{"op", opText(context, first.op)}, {"reason", reason}});
  noteOthers(context, group, false, finding);
  finding.fix.message = isHere ? "delete it; the value is handed over here" : "delete it";
}

void CommunicationReport::usedBeforeReceived(const FaultGroup &group) {
  const Fault &first = group.front();
  const Message message = messageAt(first);
  const bool isMissing = first.cause == 1;
  const std::string receive = receiveText(message);
  const bool isWait = !isMissing && program.ops[first.other].isWait();
  Finding &finding = report(
      context, group,
      {{"op", opText(context, first.op)},
       {"value", valueText(message)},
       {"how", isMissing ? ", which nothing receives" : fmt::format(" before {} has ended", receive)}});
  if (!isMissing)
    noteOp(context, finding, first.other, fmt::format("{} stands here", opText(context, first.other)));
  noteOthers(context, group, false, finding);
  finding.fix.message = isMissing
                            ? fmt::format("add {} before it, and {} on device {}", receive, sendText(message),
                                          program.deviceOf(message.from, message.microbatch))
                            : fmt::format("move {}{} before it", isWait ? "wait " : "", receive);
}

void CommunicationReport::sentBeforeMade(const FaultGroup &group) {
  const Fault &first = group.front();
  Finding &finding =
      report(context, group, {{"op", opText(context, first.op)}, {"producer", opText(context, first.other)}});
  noteOp(context, finding, first.other, fmt::format("{} stands here", opText(context, first.other)));
  noteOthers(context, group, false, finding);
  finding.fix.message = fmt::format("move it behind {}", opText(context, first.other));
}

void CommunicationReport::sentTwice(const FaultGroup &group) {
  const Fault &first = group.front();
  const size_t posts = 1 + llvm::count_if(messages.repeats(), [&](OpId id) {
                         return program.ops[id].kind == program.ops[first.op].kind &&
                                messageOf(program, id) == messageOf(program, first.op);
                       });
  Finding &finding =
      report(context, group, {{"op", opText(context, first.op)}, {"count", fmt::format("{}", posts)}});
  noteOp(context, finding, first.other, fmt::format("{} is posted here first", opText(context, first.other)));
  noteOthers(context, group, false, finding);
  finding.fix.message = fmt::format("keep one, and one {}", partnerText(program, first.op));
}

void CommunicationReport::freedBeforeSent(const FaultGroup &group) {
  const Fault &first = group.front();
  const std::string send = opText(context, first.other);
  Finding &finding =
      report(context, group, {{"op", opText(context, first.op)}, {"frees", "frees"}, {"send", send}});
  noteOp(context, finding, first.other, fmt::format("{} stands here", send));
  const OpId end = messages.endOf(first.other);
  if (end != noOp)
    noteOp(context, finding, end, fmt::format("{} stands only here", opText(context, end)));
  noteOthers(context, group, false, finding);
  finding.fix.message = fmt::format("wait {} first", sendText(messageOf(program, first.other)));
}

void CommunicationReport::payloadMismatch(const FaultGroup &group) {
  const Fault &first = group.front();
  auto sizeOf = [&](OpId id) {
    auto payload = llvm::find_if(program.payloads, [&](const OpPayload &entry) { return entry.op == id; });
    return format(Quantity{Rational(payload->bytes), sizeDimension});
  };
  Finding &finding = report(context, group,
                            {{"send", opText(context, first.op)},
                             {"size", sizeOf(first.op)},
                             {"receive", opText(context, first.other)},
                             {"expected", sizeOf(first.other)}});
  noteOp(context, finding, first.other, fmt::format("{} stands here", opText(context, first.other)));
  noteOthers(context, group, false, finding);
  finding.fix.message = "declare the boundary once, on the edge";
}

} // namespace sluice
