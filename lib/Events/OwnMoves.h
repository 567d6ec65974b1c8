// What a device has under way without another device: collectives over replicas alone (`reduce` and
// `reduce_tied` of stages with one copy, `unshard`), and activations on their way to and from its host. The
// collectives of a device form one queue, in program order; moves to or from the host share a lane if their
// route says so. An unstarted one holds its device up until it is done, a started one only the `wait` for it.
// Times in CostModel::unit.
#pragma once

#include "Events/Lanes.h"
#include "Events/Requests.h"

namespace sluice {

/// How long a collective or a move to or from the host takes, started or not; waits take none themselves.
int64_t movingTime(const CostModel &costs, const Op &op);
/// Whether any op of `program` is such a one that takes time, joint calls included.
bool hasMovingTimes(const Program &program, const CostModel &costs);

/// A collective or host move, or the wait for one, in which no other device takes part. `calls` may be null:
/// no call is joint.
bool isOwnMove(const Op &op, const Requests *calls);
inline bool isHostMove(const Op &op) { return op.kind == OpKind::Offload || op.kind == OpKind::Reload; }

/// A wait and what it is for: the n-th wait of a name is for its n-th start; noOp where nothing is started.
struct AwaitedMove {
  OpId wait, start;
};
/// Of all own moves, ascending by wait.
std::vector<AwaitedMove> awaitedMoves(const Program &program, const Requests *calls);

class OwnMoves {
public:
  /// Keeps references; `lanes` may be null where no route to a host is shared.
  OwnMoves(const Program &program, const CostModel &costs, const Requests *calls, Lanes *lanes);

  bool isOwn(const Op &op) const { return isOwnMove(op, calls); }
  /// `device` comes to `op` at `clock`, and goes on when that has moved to its end. False: it stands there
  /// until `settle` names it.
  bool run(uint32_t device, OpId op, int64_t &clock);
  /// The transfer of host move `op` is served from `begin` to `end`. The device that stands for it, if any;
  /// its clock is then at least `done[op]`.
  uint32_t settle(uint32_t device, OpId op, int64_t begin, int64_t end);

  bool hasOverflowed() const { return overflowed; }

  /// Per op, below 0 for others: begin and end of what it has under way. Joint calls are for the walk to
  /// fill.
  std::vector<int64_t> met, done;

private:
  int64_t plus(int64_t a, int64_t b);
  void runCall(uint32_t device, OpId op, int64_t clock);
  void runHostMove(uint32_t device, OpId op, int64_t clock);

  const Program &program;
  const CostModel &costs;
  const Requests *calls;
  Lanes *lanes;
  std::vector<AwaitedMove> awaited;
  std::vector<uint32_t> nextWait; // per device, into `awaited`
  std::vector<int64_t> queueFree; // per device: when its collectives so far are done
  std::vector<OpId> standsFor;    // per device
  bool overflowed = false;
};

} // namespace sluice
