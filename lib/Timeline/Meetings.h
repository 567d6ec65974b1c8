// Reductions, tied weights and norms that several devices make together, while a timeline is made: who has
// come to which, and when each is done. Calls over the same devices stand in one order on all of them, so all
// have come to the one before when all have to this. Private to lib/Timeline.
#pragma once

#include "Events/OwnMoves.h"
#include "Events/Requests.h"

namespace sluice {

/// One joint call.
struct Meeting {
  uint32_t absent = 0;
  int64_t latest = 0;      ///< When the last has come; once all have, when it is done.
  int64_t waiters = unset; ///< Devices that stand at it or at its wait, chained.
  static constexpr int64_t unset = -1;
};

class Meetings {
public:
  /// Whether `program` has any.
  static bool occurIn(const Program &program);
  explicit Meetings(const Program &program);

  const Requests &requests() const { return calls; }
  /// `op` is one, or the wait for one.
  bool joins(const Op &op) const { return calls.joins(op); }
  /// The next call that `device` makes, or waits for. noRequest: a wait for what nothing starts.
  RequestId next(uint32_t device, const Op &op) {
    return op.isWait() ? calls.waits[nextWait[device]++] : nextCall[device]++;
  }
  Meeting &of(RequestId call) { return meetings[calls.direction[call]]; }
  /// A device has come at `clock`; true if it is the last.
  static bool come(Meeting &meeting, int64_t clock) {
    meeting.latest = std::max(meeting.latest, clock);
    return --meeting.absent == 0;
  }
  /// All have come: it begins when the one before over the same devices is done. Sets begin and end of all
  /// its calls in `moves`. False if a time has overflowed.
  bool begin(RequestId call, const CostModel &costs, OwnMoves &moves);

private:
  const Program &program;
  Requests calls;
  std::vector<Meeting> meetings;
  std::vector<RequestId> nextCall; // per device
  std::vector<uint32_t> nextWait;  // per device
  std::vector<int64_t> doneAt;     // by Requests::queue of the first member, one of each set of devices
};

} // namespace sluice
