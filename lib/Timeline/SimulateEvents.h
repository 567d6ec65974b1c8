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

/// Of a program whose communication is written, under CostModel::channels. Nothing if it is stuck, a message
/// has no other device (406), or a time leaves 64 bits, of which only the last is a finding (106).
std::optional<Timeline> simulateEvents(const Program &program, const CostModel &costs,
                                       Diagnostics &diagnostics);

/// Finding 106: a time of `program` leaves 64 bits.
void reportOverflow(const Program &program, const CostModel &costs, Diagnostics &diagnostics);

} // namespace sluice
