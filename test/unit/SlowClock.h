// Events in the order of time, read naively from docs/figures.md ("The timeline"): an event happens once all
// that it needs has happened; one that is a transfer may stand on a lane first, which transfers share in
// order or all at once. Shares no code with lib/Timeline or lib/Events. Times count CostModel::unit.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"

#include <set>
#include <tuple>
#include <vector>

namespace sluice::slow {

/// A transfer, from being ready to its arrival. Its service occupies the lane, its latency follows.
struct Passage {
  Sharing sharing = Sharing::No;
  uint32_t lane = noLane; ///< noLane: alone.
  int64_t latency = 0, service = 0;
  OpId sender = 0;    ///< Ties at one lane: lower first,
  uint32_t stage = 0; ///< then the receiving stage.
  int64_t begin = -1; ///< Under way from here on.
};

struct Event {
  uint32_t device = noDevice;
  std::vector<size_t> needs; ///< Events that must have happened.
  int64_t own = 0;           ///< Time it takes behind all that it needs.
  bool isUnderWay =
      false; ///< That time is no device's work: a transfer, a collective, a move to or from a host.
  bool never = false;
  int64_t passage = -1; ///< Into Clock::passages.
  int64_t ready = -1, time = -1;
};

class Clock {
public:
  std::vector<Event> events;
  std::vector<Passage> passages;

  size_t add(uint32_t device) {
    events.emplace_back().device = device;
    return events.size() - 1;
  }
  /// Lets everything happen that can.
  void run();
  /// Time that is nobody's work between `from` and `event`, back along what each event waited for longest;
  /// ties: the device at hand, then the lowest device.
  int64_t underWaySince(int64_t from, size_t event) const;
  /// The least and the most that any choice between ties gives.
  std::pair<int64_t, int64_t> underWayRange(int64_t from, size_t event) const;

private:
  /// At one moment: events, then those that leave a lane, then those that come to it by sender and stage.
  struct Due {
    int64_t time;
    enum Kind { Happens, Leaves, Joins } kind;
    OpId sender;
    uint32_t stage;
    size_t event; ///< Of Leaves the lane.
    friend auto operator<=>(const Due &, const Due &) = default;
  };
  struct Lane {
    int64_t free = 0; ///< In order: when the last one has left.
    /// All at once: service that each of them got since the lane was last empty, when that was counted, and
    /// at how much each will have left.
    int64_t served = 0, counted = 0;
    std::vector<std::pair<int64_t, size_t>> targets;
  };
  void join(size_t event, int64_t now);
  void leave(size_t lane, int64_t now);
  void expectLeave(size_t lane);
  /// The needs that `event` waited for longest; empty if it waited for none.
  std::vector<size_t> binding(const Event &event) const;

  std::vector<std::vector<size_t>> neededBy;
  std::vector<size_t> missing;
  std::vector<Lane> lanes;
  std::set<Due> due;
};

} // namespace sluice::slow
