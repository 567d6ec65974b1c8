// The timeline of written communication: device programs run against each other on the event graph of their
// channels (lib/Events), with durations. A device computes, posts, and stands where a statement blocks; what
// it lacks to go on is under way or not even sent, and the two are told apart. Private to lib/Timeline.
#pragma once

#include "Events/Messages.h"
#include "Timeline/Simulate.h"

namespace sluice {

/// How long a message is under way: the transfer of its edge, which the sender gives.
int64_t transferOf(const Program &program, const CostModel &costs, const Message &message);
/// Of the output, or input gradient, that `producer` makes, on its way to stage `to`.
inline int64_t transferOf(const Program &program, const CostModel &costs, const Op &producer, uint32_t to) {
  return transferOf(program, costs, {producer.stage, to, producer.microbatch, producer.makesGradient()});
}

/// Of the way of a message, if the file declares links; null else.
const Route *routeOf(const Program &program, const CostModel &costs, const Message &message);
/// The same, if the message shares a lane with others.
const Route *sharedRouteOf(const Program &program, const CostModel &costs, const Message &message);

/// When what `producer` makes has arrived at stage `to`; where communication is inferred.
inline int64_t arrivalOf(const Program &program, const CostModel &costs, const Timeline &timeline,
                         OpId producer, uint32_t to) {
  const Op &op = program.ops[producer];
  if (!timeline.arrived.empty()) {
    const bool isNeighbour = op.stage + 1u == to || to + 1u == op.stage;
    if (isNeighbour && timeline.arrived[producer] >= 0)
      return timeline.arrived[producer];
    if (!isNeighbour)
      if (auto found = timeline.arrivedOverSkips.find({producer, to});
          found != timeline.arrivedOverSkips.end())
        return found->second;
  }
  return timeline.end[producer] + transferOf(program, costs, op, to);
}

/// What blocks on the timeline of written communication: CostModel::channels, but under `transfers =
/// blocking` a send and its receive meet, whatever the file says of channels.
ChannelRules timelineRules(const CostModel &costs);

/// Whether an op that is no wait and not started occupies its device from Timeline::met to its end, which may
/// be longer than its duration.
bool occupiesFromMet(const CostModel &costs, const Op &op);

/// Of a program whose communication is written, under CostModel::channels. Nothing if it is stuck, a message
/// has no other device (406), or a time leaves 64 bits, of which only the last is a finding (106).
std::optional<Timeline> simulateEvents(const Program &program, const CostModel &costs,
                                       Diagnostics &diagnostics);

/// Finding 106: a time of `program` leaves 64 bits.
void reportOverflow(const Program &program, const CostModel &costs, Diagnostics &diagnostics);

} // namespace sluice
