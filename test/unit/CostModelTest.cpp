// What the costs of a schedule file come to as numbers: times in the common unit, links and the routes over
// them, lanes, collectives, host moves and measured profiles, each worked out by hand.
#include "Driver/Compilation.h"

#include <gtest/gtest.h>

using namespace sluice;

namespace {

/// A schedule file whose profile is at hand.
class CostModelTest : public testing::Test {
protected:
  class Loader : public FileLoader {
  public:
    Loader(SourceManager &sources, const std::string &profile)
        : FileLoader(sources), sources(sources), profileText(profile) {}
    Result read(llvm::StringRef path, llvm::StringRef) override {
      return {*sources.addFile(path.str(), profileText), ""};
    }

  private:
    SourceManager &sources;
    const std::string &profileText;
  };

  /// The costs of the only schedule; findings are in `diagnostics`.
  CostModel costsOf(const std::string &text) {
    Loader loader(sources, profile);
    Compilation compilation(sources, loader);
    CostModel costs;
    if (compilation.load(*sources.addFile("pipeline.sluice", text), diagnostics))
      compilation.run({}, {}, Compilation::Depth::Elaborate, diagnostics,
                      [&](Instance &instance) { costs = instance.costs; });
    for (const Finding &finding : diagnostics.findings())
      messages += finding.message + "\n";
    return costs;
  }
  /// A time in nanoseconds or ticks.
  static Rational exact(const CostModel &costs, int64_t count) {
    return *multiply(Rational(count), costs.unit);
  }

  std::string profile, messages;
  SourceManager sources;
  Diagnostics diagnostics;
};

/// A chain over `devices` devices with the given blocks, two microbatches, all ops in order.
std::string chain(int devices, const std::string &blocks, const std::string &behind = "") {
  return blocks + "\nschedule main { place s in 0.." + std::to_string(devices) +
         " on s for m in 0..2; device d { for m in 0..2 { forward(m); } for m in 0..2 { backward(m); } " +
         behind + " } }\n";
}

constexpr const char *twoNodes = R"(
model x { stages = 4; forward = 7 ms; backward = 7 ms; boundary = 8 MB; }
cluster {
  link near (a, b) when div(a, 2) == div(b, 2) { latency = 2 ms; }
  link card (a, b) { latency = 10 ms; bandwidth = 8 GB/s; shared = fifo; lane = div(a, 2); }
}
)";

TEST_F(CostModelTest, TheFirstLinkThatHoldsIsTaken) {
  const CostModel costs = costsOf(chain(4, twoNodes));
  ASSERT_EQ(messages, "");
  EXPECT_EQ(costs.unit, Rational(1'000'000));
  ASSERT_EQ(costs.links.size(), 2u);
  EXPECT_EQ(costs.links[0].name, "near");
  EXPECT_EQ(costs.links[0].sharing, Sharing::No);
  EXPECT_EQ(costs.links[1].name, "card");
  EXPECT_EQ(costs.links[1].sharing, Sharing::Fifo);
  // Devices 0 and 1 form a node, 2 and 3 another: only the edge between stages 1 and 2 leaves one.
  const int64_t ahead[] = {2, 11, 2, 0}, back[] = {0, 2, 11, 2};
  const uint32_t linkAhead[] = {0, 1, 0, noLink}, linkBack[] = {noLink, 0, 1, 0};
  for (uint32_t s = 0; s < 4; ++s)
    for (uint32_t m = 0; m < 2; ++m) {
      EXPECT_EQ(costs.activationTransfer.at(s, m), ahead[s]) << s;
      EXPECT_EQ(costs.gradientTransfer.at(s, m), back[s]) << s;
      const uint32_t there = costs.activationRoute.at(s, m), here = costs.gradientRoute.at(s, m);
      EXPECT_EQ(there == noRoute ? noLink : costs.routes[there].link, linkAhead[s]) << s;
      EXPECT_EQ(here == noRoute ? noLink : costs.routes[here].link, linkBack[s]) << s;
    }
  // Out of the first node and out of the second: a lane each.
  EXPECT_EQ(costs.laneCount, 2u);
  const Route &out = costs.routes[costs.activationRoute.at(1, 0)],
              &home = costs.routes[costs.gradientRoute.at(2, 0)];
  EXPECT_NE(out.lane, home.lane);
  EXPECT_LT(out.lane, 2u);
  EXPECT_LT(home.lane, 2u);
  EXPECT_EQ(out.latency, 10);
  EXPECT_EQ(costs.routes[costs.activationRoute.at(0, 0)].lane, noLane);
}

TEST_F(CostModelTest, OneLaneForAllOrOneForEachPair) {
  const std::string model = "model x { stages = 3; forward = 1 us; backward = 1 us; boundary = 1 KB; }\n";
  EXPECT_EQ(costsOf(chain(3, model + "cluster { link { bandwidth = 1 GB/s; shared = fifo; lane = 7; } }"))
                .laneCount,
            1u);
  EXPECT_EQ(costsOf(chain(3, model + "cluster { link { bandwidth = 1 GB/s; shared = fifo; } }")).laneCount,
            4u);
  EXPECT_EQ(costsOf(chain(3, model + "cluster { link { latency = 1 us; } }")).laneCount, 0u);
  EXPECT_EQ(messages, "");
}

TEST_F(CostModelTest, FairLanesDivideTheUnit) {
  const std::string model = "model x { stages = 3; forward = 6 us; backward = 9 us; boundary = 6 KB; }\n";
  const CostModel plain =
      costsOf(chain(3, model + "cluster { link { latency = 3 us; bandwidth = 1 GB/s; shared = fifo; } }"));
  const CostModel fair =
      costsOf(chain(3, model + "cluster { link { latency = 3 us; bandwidth = 1 GB/s; shared = fair; } }"));
  EXPECT_EQ(plain.unit, Rational(3000));
  EXPECT_EQ(fair.unit, *divide(Rational(3000), Rational(2520)));
  EXPECT_EQ(fair.forward.at(0, 0), 2 * 2520);
  EXPECT_EQ(fair.routes[0].latency, 2520);
  // A fair link that no transfer takes changes nothing.
  EXPECT_EQ(costsOf(chain(3, model + "cluster { link { latency = 3 us; } }")).unit, Rational(3000));
}

TEST_F(CostModelTest, LatencyTakesPartInTheUnit) {
  // The transfers take 12 and 14, but a latency is 5.
  const CostModel good = costsOf(chain(
      3, "model x { stages = 3; forward = 2 us; backward = 4 us; boundary(s) = s == 0 ? 14 B : 18 B; }\n"
         "cluster { link { latency = 5 us; bandwidth = 2 MB/s; } }"));
  EXPECT_EQ(good.unit, Rational(1000));
  EXPECT_EQ(good.activationTransfer.at(0, 0), 12);
  EXPECT_EQ(good.activationTransfer.at(1, 0), 14);
  EXPECT_EQ(good.routes[good.activationRoute.at(0, 0)].latency, 5);
}

TEST_F(CostModelTest, Collectives) {
  const std::string blocks =
      "model x { stages = 2; forward = 1 us; backward = 2 us; gradients(s) = (s + 1) * 1 MB; "
      "weights = 3 MB; update(s) = 7 us + s * 1 us; tied emb on 0, 1; }\n"
      "cluster { collective(n) { latency = 1 us * n; bandwidth = 1 GB/s; } "
      "collectives = overlapped; }\n";
  const CostModel costs = costsOf(chain(2, blocks + "training { microbatches = 2; replicas = 4; }",
                                        "reshard; unshard; reduce_tied(emb); reduce; update;"));
  ASSERT_EQ(messages, "");
  EXPECT_TRUE(costs.collectivesOverlap);
  // Four members: 4 us, and 1 MB at 1 GB/s is 1 ms.
  EXPECT_EQ(exact(costs, costs.reduce[0]), Rational(1'004'000));
  EXPECT_EQ(exact(costs, costs.reduce[1]), Rational(2'004'000));
  EXPECT_EQ(exact(costs, costs.unshard[1]), Rational(3'004'000));
  ASSERT_EQ(costs.reduceTied.size(), 1u); // two devices in each replica
  EXPECT_EQ(exact(costs, costs.reduceTied[0]), Rational(8'000));
  EXPECT_EQ(exact(costs, costs.update[1]), Rational(8'000));
  // Alone there is nothing to do together, but what the model gives counts.
  const CostModel alone =
      costsOf(chain(2, blocks + "training { microbatches = 2; replicas = 1; }", "reduce; update;"));
  EXPECT_TRUE(alone.reduce.empty());
  const CostModel given = costsOf(
      chain(2, "model x { stages = 2; forward = 1; backward = 2; reduce(s) = s + 3; }", "reduce; update;"));
  EXPECT_EQ(given.reduce, (std::vector<int64_t>{3, 4}));
  EXPECT_TRUE(given.update.empty());
}

TEST_F(CostModelTest, WhatNothingGivesIsNamed) {
  auto named = [&](const std::string &blocks, const std::string &ops) {
    std::vector<std::string> result;
    for (const std::string &name :
         costsOf(chain(2,
                       "model x { stages = 2; forward = 1; backward = 2; activation = 1 B; "
                       "boundary = 1 B; weights = 1 B; gradients = 1 B; "
                       "optimizer_state = 1 B; }\n" +
                           blocks,
                       ops))
             .notCounted)
      result.push_back(name);
    return result;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(named("", ""), Names());
  EXPECT_EQ(named("", "reduce; update;"), Names{"update"});
  EXPECT_EQ(named("training { microbatches = 2; replicas = 2; }", "reduce; update;"),
            (Names{"update", "reduce"}));
  EXPECT_EQ(named("training { microbatches = 2; replicas = 2; }", "reshard; unshard;"), Names{"unshard"});
  EXPECT_EQ(named("training { microbatches = 2; replicas = 1; }", "reshard; unshard;"), Names());
  EXPECT_EQ(named("cluster { collective { latency = 1; } } training { microbatches = 2; replicas = 2; }",
                  "reduce;"),
            Names());
}

TEST_F(CostModelTest, Host) {
  const std::string text = R"(
model x { stages = 2; forward = 1 us; backward = 2 us; activation(s) = (s + 1) * 1 MB; }
cluster { host(d) { latency = d * 1 us; bandwidth = 1 GB/s; shared = fifo; } }
schedule main { place s in 0..2 on s for m in 0..1;
  device d { forward(0); offload(d, 0); reload(d, 0); backward(0); } }
)";
  const CostModel costs = costsOf(text);
  ASSERT_EQ(messages, "");
  EXPECT_EQ(exact(costs, costs.offload.at(0, 0)), Rational(1'000'000));
  EXPECT_EQ(exact(costs, costs.reload.at(1, 0)), Rational(2'001'000));
  ASSERT_EQ(costs.hostRoutes.size(), 4u);
  EXPECT_EQ(exact(costs, costs.hostRoutes[3].latency), Rational(1000));
  EXPECT_EQ(costs.laneCount, 4u); // there and back, a device
  EXPECT_EQ(costs.links[costs.hostRoutes[0].link].name, "host");
}

TEST_F(CostModelTest, WhatIsNotUsedStaysEmpty) {
  const CostModel costs =
      costsOf(chain(2, "model x { stages = 2; forward = 1; backward = 2; update = 3; reduce = 5; }\n"
                       "cluster { host { latency = 1; } collective { latency = 1; } }"));
  ASSERT_EQ(messages, "");
  EXPECT_TRUE(costs.update.empty() && costs.reduce.empty() && costs.unshard.empty() &&
              costs.reduceTied.empty());
  EXPECT_TRUE(costs.offload.empty() && costs.reload.empty() && costs.hostRoutes.empty());
  EXPECT_TRUE(costs.routes.empty() && costs.links.empty() && costs.activationRoute.empty());
  EXPECT_FALSE(costs.transfersBlock || costs.collectivesOverlap);
}

/// Of layers 0 to s of stage s: an update of 2 for each.
TEST_F(CostModelTest, UpdatesOfLayersAddUp) {
  const CostModel costs =
      costsOf(chain(2,
                    "model x { stages = 2; layers(s) = 3 * s..3 + 4 * s; layer(l) { forward = 1; "
                    "backward = 2; update = 2; } }",
                    "update;"));
  ASSERT_EQ(messages, "");
  EXPECT_EQ(costs.update, (std::vector<int64_t>{6, 8}));
}

TEST_F(CostModelTest, ProfilesAreStraightBetweenTheirPoints) {
  profile = R"({"version": 1, "time_unit": "us", "ops": {
    "forward": [{"stage": 0, "samples": [1, 2, 4], "time": [10, 18, 35.5]}, {"samples": [2, 4], "time": [10, 20]}],
    "backward": [{"time": 3e1}], "update": [{"stage": 1, "time": 5}, {"time": [4]}]}})";
  const std::string text = R"(
model x { stages = 2; cost from "any.json"; recompute(s, m) = forward(s, m) / 2; }
training { microbatches = 4; samples(m) = [1, 3, 4, 2]; }
schedule main { place s on s; device d {
  for m in 0..4 { forward(m) keep input; } for m in 0..4 { recompute(m); backward(m); } update; } }
)";
  const CostModel costs = costsOf(text);
  const int64_t first[] = {10'000, 26'750, 35'500, 18'000}, second[] = {5'000, 15'000, 20'000, 10'000};
  for (uint32_t m = 0; m < 4; ++m) {
    EXPECT_EQ(exact(costs, costs.forward.at(0, m)), Rational(first[m])) << m;
    EXPECT_EQ(exact(costs, costs.forward.at(1, m)), Rational(second[m])) << m;
    EXPECT_EQ(exact(costs, costs.recompute.at(0, m)), *divide(Rational(first[m]), Rational(2))) << m;
    EXPECT_EQ(exact(costs, costs.backward.at(1, m)), Rational(30'000)) << m;
  }
  EXPECT_EQ(exact(costs, costs.update[0]), Rational(4'000));
  EXPECT_EQ(exact(costs, costs.update[1]), Rational(5'000));
  EXPECT_EQ(costs.displayUnit, "us");
  // Stage 1 has no point at 1 sample; stage 0 has one at each.
  EXPECT_EQ(messages,
            "forward(1) of 1 sample: profile \"any.json\" measured 2 to 4 samples, so 5 us is extended from "
            "its last two points\n");
}

TEST_F(CostModelTest, ProfilesNeverGoBelowZero) {
  profile = R"({"version": 1, "time_unit": "ns", "ops": {
    "forward": [{"samples": [2, 4], "time": [10, 30]}], "backward": [{"samples": [4], "time": [7]}]}})";
  const CostModel costs = costsOf(chain(1, "model x { stages = 1; cost from \"any.json\"; }\n"
                                           "training { microbatches = 2; microbatch_samples = 1; }"));
  EXPECT_EQ(costs.forward.at(0, 0), 0);
  EXPECT_EQ(exact(costs, costs.backward.at(0, 0)), Rational(7));
  EXPECT_EQ(diagnostics.findings().size(), 2u) << messages;
}

TEST_F(CostModelTest, TheModelBeatsItsProfile) {
  profile = R"({"version": 1, "time_unit": "ms", "ops": {"forward": [{"time": 1}], "backward": [{"time": 2}],
    "backward_input": [{"time": 3}], "backward_weight": [{"time": 4}]}})";
  const CostModel costs =
      costsOf(chain(1, "model x { stages = 1; cost from \"any.json\"; forward = 9 ms; }"));
  ASSERT_EQ(messages, "");
  EXPECT_EQ(exact(costs, costs.forward.at(0, 0)), Rational(9'000'000));
  EXPECT_EQ(exact(costs, costs.backward.at(0, 0)),
            Rational(2'000'000)); // as measured, not the sum of its halves
}

/// A unit is a split of a microbatch, whose samples it has.
TEST_F(CostModelTest, ProfilesOfSplits) {
  profile = R"({"version": 1, "time_unit": "ns", "ops": {
    "forward": [{"samples": [1, 2], "time": [10, 20]}], "backward": [{"time": 5}]}})";
  const CostModel costs = costsOf(R"(
model x { stages = 1; cost from "any.json"; }
training { microbatches = 2; samples(m) = m + 1; }
schedule main { sequence_splits = 2; place s on s; device d {
  for u in 0..4 { forward(u); } for u in reversed(0..4) { backward(u); } } }
)");
  ASSERT_EQ(messages, "");
  const int64_t times[] = {10, 10, 20, 20};
  for (uint32_t u = 0; u < 4; ++u)
    EXPECT_EQ(exact(costs, costs.forward.at(0, u)), Rational(times[u])) << u;
}

} // namespace
