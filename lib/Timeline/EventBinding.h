// Why a send, receive, wait or joint call ends when it does: the op whose end, plus the transfers in between,
// is its end. Requests stand in queues, so between that op and the end there may be several messages, one
// after the other. Of an op that occupies its device while its request is under way, why it begins. Private
// to lib/Timeline.
#pragma once

#include "Timeline/Binding.h"
#include "Timeline/EventGraph.h"

namespace sluice {

class EventBindings {
public:
  /// Of a program whose communication is written; keeps references.
  EventBindings(const Program &program, const CostModel &costs, const Timeline &timeline);

  /// Moves `best`, which is the op before in the program, to what ends the statement at `first` if that came
  /// later. Amortised linear over all ops.
  void consider(OpId first, Binding &best) const;
  const Requests &requests() const { return graph.requests; }

private:
  /// The last prerequisite of an event: another request's end, or that of an op (noOp: time 0).
  struct Cause {
    int64_t time = -1; ///< With `transfer`.
    int64_t transfer = 0;
    RequestId request = noRequest;
    OpId op = noOp;
    EdgeKind kind = EdgeKind::Order;
  };
  class Latest;

  Cause causeOf(RequestId r) const;
  const Cause &rootOf(RequestId r) const;

  const Program &program;
  const CostModel &costs;
  const Timeline &timeline;
  const EventGraph graph;
  // Per request, once asked for: the op that ends it, over the requests between.
  mutable std::vector<Cause> roots;
  mutable std::vector<Cause> meetings; // of joint calls: what the last of them waits for
  mutable std::vector<std::pair<RequestId, Cause>> pending;
};

} // namespace sluice
