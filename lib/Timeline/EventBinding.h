// Why a send, receive, wait or joint call ends when it does: the op whose end, plus the transfers in between,
// is its end. Requests stand in queues, so between that op and the end there may be several messages, one
// after the other. Private to lib/Timeline.
#pragma once

#include "Events/Requests.h"
#include "Timeline/Binding.h"

namespace sluice {

class EventBindings {
public:
  /// Of a program whose communication is written; keeps references.
  EventBindings(const Program &program, const CostModel &costs, const Timeline &timeline);

  /// Moves `best`, which is the op before in the program, to what ends the statement at `first` if that came
  /// later. Amortised linear over all ops.
  void consider(OpId first, Binding &best) const;

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
  void beginOf(RequestId r, Latest &latest) const;
  void readyOf(RequestId r, Latest &latest) const;
  void wholeGroup(RequestId r, Latest &latest) const;
  int64_t doneAt(RequestId r) const { return timeline.done[requests.op[r]]; }
  OpId opBefore(OpId op) const;
  EdgeKind kindOf(RequestId r) const;

  const Program &program;
  const CostModel &costs;
  const Timeline &timeline;
  const ChannelRules rules;
  const Requests requests;
  std::vector<RequestId> before; ///< Per request, of the statement before it in its queue the last to end.
  std::vector<OpId> waitOps;     ///< Of Requests::waits.
  std::vector<OpId> waitOf;      ///< Per request; only where transfers move in waits alone.
  /// Under connect = first_use: the first request of each device to each other.
  llvm::DenseMap<std::pair<uint32_t, uint32_t>, RequestId> firstUse;
  // Per request, once asked for: the op that ends it, over the requests between.
  mutable std::vector<Cause> roots;
  mutable std::vector<std::pair<RequestId, Cause>> pending;
};

} // namespace sluice
