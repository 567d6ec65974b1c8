// Transfers that share a link delay each other (docs/figures.md, "The timeline"). A lane is what they share:
// under `fifo` it serves one after the other in the order in which they are ready, under `fair` each of n on
// it moves at an n-th of the speed. Only the service of a transfer, size ÷ bandwidth, occupies the lane.
//
// A walk of a schedule posts joins as it comes to them and carries out the earliest event when nothing else
// can go on; what an event lets go on never joins before it, so events ascend in time. At one moment
// transfers leave before others join, and joins are in the order of their keys. A join or leave costs a
// logarithm.
#pragma once

#include "IR/CostModel.h"

#include <optional>

namespace sluice {

class Lanes {
public:
  /// Of the routes of `costs`, lanes 0 to CostModel::laneCount.
  explicit Lanes(const CostModel &costs);

  /// `key` names the transfer and breaks ties, lower first. Times in CostModel::unit.
  void join(uint32_t lane, int64_t time, int64_t service, uint64_t key);
  /// No transfer is waiting or under way.
  bool isEmpty() const { return open == 0; }

  /// A transfer whose service is settled: from `begin` to `end`.
  struct Served {
    uint64_t key;
    int64_t begin, end;
  };
  /// Carries out the earliest event, of those there must be one; nothing if it settles no transfer.
  std::optional<Served> advance();

  /// A time has left 64 bits: none is right.
  bool hasOverflowed() const { return overflowed; }

private:
  struct Event {
    int64_t time;
    uint64_t key;
    int64_t service;
    uint32_t lane;
    uint32_t version; // of a leave: that of its lane, or it is out of date; of a join: `joins`
    bool operator>(const Event &other) const;
  };
  static constexpr uint32_t joins = ~0u;
  struct Member {
    int64_t target; // of `served`
    uint64_t key;
    int64_t begin;
    bool operator>(const Member &other) const;
  };
  struct Lane {
    Sharing sharing = Sharing::Fifo;
    int64_t last = 0;            // fifo: when it is free; fair: when members changed last
    int64_t served = 0;          // fair: what each member has had since the lane began
    uint32_t version = 0;        // fair: counts changes
    std::vector<Member> members; // fair: a heap, the first to leave on top
  };

  Served serve(Lane &lane, const Event &event);
  std::optional<Served> share(Lane &lane, const Event &event);
  Served leave(Lane &lane, const Event &event);
  void schedule(Lane &lane, uint32_t number);
  void push(const Event &event);
  int64_t plus(int64_t a, int64_t b);

  std::vector<Lane> lanes;
  std::vector<Event> events; // a heap, the earliest on top
  uint64_t open = 0;         // transfers that are not settled
  bool overflowed = false;
};

} // namespace sluice
