// Links that transfers share, by hand: who is served when, under fifo and under fair.
#include "Events/Lanes.h"

#include <gtest/gtest.h>

using namespace sluice;

namespace {

/// Lane 0 under `sharing`.
CostModel oneLane(Sharing sharing) {
  CostModel costs;
  costs.links = {{"net", sharing, {}}};
  costs.routes = {{0, 0, 0}};
  costs.laneCount = 1;
  return costs;
}

struct Transfer {
  int64_t time, service;
  uint64_t key;
};
struct Passage {
  uint64_t key;
  int64_t begin, end;
  friend bool operator==(const Passage &, const Passage &) = default;
};

/// In the order in which they are settled.
std::vector<Passage> carried(Sharing sharing, const std::vector<Transfer> &transfers) {
  Lanes lanes(oneLane(sharing));
  for (const Transfer &each : transfers)
    lanes.join(0, each.time, each.service, each.key);
  std::vector<Passage> passages;
  while (!lanes.isEmpty())
    if (const auto served = lanes.advance())
      passages.push_back({served->key, served->begin, served->end});
  EXPECT_FALSE(lanes.hasOverflowed());
  return passages;
}

} // namespace

TEST(Lanes, FifoServesInTheOrderOfReadiness) {
  EXPECT_EQ(carried(Sharing::Fifo, {{5, 10, 7}, {5, 10, 3}, {4, 2, 9}, {40, 1, 1}}),
            (std::vector<Passage>{{9, 4, 6}, {3, 6, 16}, {7, 16, 26}, {1, 40, 41}}));
}

TEST(Lanes, FairGivesEachItsPart) {
  // Alone until 4, then in two halves: 3 take 6, and the first has 3 left.
  EXPECT_EQ(carried(Sharing::Fair, {{0, 10, 1}, {4, 3, 2}}), (std::vector<Passage>{{2, 4, 10}, {1, 0, 13}}));
  EXPECT_EQ(carried(Sharing::Fair, {{0, 3, 1}, {0, 3, 2}, {0, 6, 3}}),
            (std::vector<Passage>{{1, 0, 9}, {2, 0, 9}, {3, 0, 12}}));
}

TEST(Lanes, FairLosesWhatIsNoWholeUnit) {
  // At 5 each of two has had 2 of 10. The third takes 1 in three thirds, the others 7 in halves.
  EXPECT_EQ(carried(Sharing::Fair, {{0, 10, 1}, {0, 10, 2}, {5, 1, 3}}),
            (std::vector<Passage>{{3, 5, 8}, {1, 0, 22}, {2, 0, 22}}));
}

TEST(Lanes, LeavesComeBeforeJoins) {
  EXPECT_EQ(carried(Sharing::Fair, {{0, 4, 2}, {4, 4, 1}}), (std::vector<Passage>{{2, 0, 4}, {1, 4, 8}}));
}

TEST(Lanes, WhatHasNoSizeDelaysNobody) {
  EXPECT_EQ(carried(Sharing::Fair, {{0, 10, 1}, {0, 10, 2}, {5, 0, 3}}),
            (std::vector<Passage>{{3, 5, 5}, {1, 0, 20}, {2, 0, 20}}));
  EXPECT_EQ(carried(Sharing::Fifo, {{0, 10, 1}, {5, 0, 3}}), (std::vector<Passage>{{1, 0, 10}, {3, 10, 10}}));
}

TEST(Lanes, OverflowIsSeen) {
  for (Sharing sharing : {Sharing::Fifo, Sharing::Fair}) {
    Lanes lanes(oneLane(sharing));
    lanes.join(0, INT64_MAX - 5, 10, 1);
    lanes.advance();
    EXPECT_TRUE(lanes.hasOverflowed());
  }
}
