// What a faster stage, link or collective saves, against a second reading of the timeline on costs that are
// made faster here anew; and the make-up of critical paths, which adds up to the makespan. On random
// schedules with everything that takes time; lanes serve in order, since what `fair` rounds depends on the
// unit.
#include "Passes/LowerCommunication.h"
#include "RandomExplicit.h"
#include "RandomTiming.h"
#include "SlowTiming.h"
#include "Timeline/Sensitivity.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>
#include <set>

using namespace sluice;
using namespace sluice::slow;

namespace {

/// What takes 99/100 of its time: a stage, a link or all collectives. All times are multiplied by 200.
struct Faster {
  uint32_t stage = ~0u;
  std::optional<uint32_t> link = std::nullopt;
  bool collectives = false;

  static constexpr int64_t whole = 200;
  int64_t ofStage(uint32_t s) const { return s == stage ? 198 : whole; }
  int64_t ofLink(uint32_t other) const { return link == other ? 198 : whole; }
  int64_t ofCollective() const { return collectives ? 198 : whole; }
};

uint32_t linkOf(const CostModel &costs, const StageTable<uint32_t> &routes, uint32_t s, uint32_t m) {
  const uint32_t route = routes.empty() ? noRoute : routes.at(s, m);
  return route == noRoute ? noLink : costs.routes[route].link;
}

template <typename Factor> void multiply(StageTable<int64_t> &table, uint32_t microbatches, Factor factor) {
  if (table.empty())
    return;
  StageTable<int64_t> result;
  for (uint32_t m = 0; m < microbatches; ++m) {
    std::vector<int64_t> row;
    for (uint32_t s = 0; s < table.stageCount(); ++s)
      row.push_back(table.at(s, m) * factor(s, m));
    result.addMicrobatch(row);
  }
  result.finish();
  table = result;
}

CostModel multiplied(const Program &program, const CostModel &costs, const Faster &faster) {
  CostModel result = costs;
  const uint32_t M = program.microbatches;
  for (StageTable<int64_t> *table :
       {&result.forward, &result.backward, &result.backwardInput, &result.backwardWeight, &result.recompute})
    multiply(*table, M, [&](uint32_t s, uint32_t) { return faster.ofStage(s); });
  for (auto &[stages, time] : result.overlapped)
    time *= (faster.ofStage(stages.first) + faster.ofStage(stages.second)) / 2;
  for (uint32_t s = 0; s < result.update.size(); ++s)
    result.update[s] *= faster.ofStage(s);
  for (std::vector<int64_t> *list : {&result.reduce, &result.unshard, &result.reduceTied})
    for (int64_t &time : *list)
      time *= faster.ofCollective();
  multiply(result.activationTransfer, M,
           [&](uint32_t s, uint32_t m) { return faster.ofLink(linkOf(costs, costs.activationRoute, s, m)); });
  multiply(result.gradientTransfer, M,
           [&](uint32_t s, uint32_t m) { return faster.ofLink(linkOf(costs, costs.gradientRoute, s, m)); });
  for (size_t i = 0; i < result.skipTransfer.size(); ++i)
    multiply(result.skipTransfer[i], M, [&](uint32_t column, uint32_t m) {
      return faster.ofLink(costs.skipRoute.empty() ? noLink : linkOf(costs, costs.skipRoute[i], column, m));
    });
  for (bool isBack : {false, true})
    multiply(isBack ? result.reload : result.offload, M, [&](uint32_t s, uint32_t m) {
      return faster.ofLink(costs.hostRoutes[2 * program.deviceOf(s, m) + isBack].link);
    });
  for (std::vector<Route> *routes : {&result.routes, &result.hostRoutes})
    for (Route &route : *routes)
      route.latency *= faster.ofLink(route.link);
  return result;
}

void expectGains(const Program &program, const CostModel &costs, unsigned &gained) {
  const ProgramIndex index(program);
  Diagnostics diagnostics;
  const auto timeline = simulate(program, index, costs, diagnostics);
  if (!timeline)
    return;
  const Makeup makeup =
      makeupOf(program, index, costs, *timeline, criticalPath(program, index, costs, *timeline));
  EXPECT_EQ(makeup.sum(), timeline->makespan);
  const auto gains = sensitivities(program, index, costs, *timeline, makeup, 1);
  ASSERT_TRUE(gains);
  const int64_t whole = timeline->makespan * Faster::whole;
  ASSERT_EQ(Timing(program, multiplied(program, costs, {})).times.makespan(), whole);
  auto expect = [&](const Rational &ours, const Faster &faster, const std::string &what) {
    const int64_t less = whole - Timing(program, multiplied(program, costs, faster)).times.makespan();
    EXPECT_EQ(ours.str(), Rational::make(less, Faster::whole)->str()) << what;
    gained += less > 0;
  };
  ASSERT_EQ(gains->stages.size(), program.stages);
  for (uint32_t s = 0; s < program.stages; ++s)
    expect(gains->stages[s], {.stage = s}, fmt::format("stage {}", s));
  std::set<uint32_t> named;
  for (const LinkSensitivity &link : gains->links) {
    expect(link.gain, {.link = link.link}, fmt::format("link {}", static_cast<int32_t>(link.link)));
    EXPECT_TRUE(named.insert(link.link).second);
  }
  for (uint32_t link = 0; link <= costs.links.size(); ++link) // what is not named saves nothing
    if (const uint32_t other = link < costs.links.size() ? link : noLink; !named.contains(other))
      expect(0, {.link = other}, fmt::format("link {} is not named", static_cast<int32_t>(other)));
  expect(gains->collectives.value_or(0), {.collectives = true}, "collectives");
}

void serveInOrder(CostModel &costs) {
  for (LinkKind &kind : costs.links)
    if (kind.sharing == Sharing::Fair)
      kind.sharing = Sharing::Fifo;
}

} // namespace

TEST(Gains, AreTheDifferenceOfTwoTimelines) {
#ifdef SLUICE_THINNED
  constexpr uint64_t stride = 7; // odd: what alternates with the seed keeps alternating
#else
  constexpr uint64_t stride = 1;
#endif
  unsigned gained = 0;
  for (uint64_t seed = 40000; seed < 40400; seed += stride) {
    RandomTiming timing = randomTiming(seed, {.sharesLanes = seed % 3 != 0, .skips = seed % 4 == 0});
    CostModel &costs = timing.schedule.costs;
    serveInOrder(costs);
    Program program = timing.program;
    Random random(seed);
    if (seed % 4 == 1) {
      costs.transfersBlock = true;
      costs.channels.depth = 0;
      costs.channels.key = ChannelRules::Key::Message;
      program = *lowerCommunication(program, ProgramIndex(program), CommunicationPlacement::Early);
    } else if (seed % 4 == 2) {
      costs.channels = randomRules(random);
      program = randomExplicit(timing.schedule, timing.program, seed, static_cast<Writing>(random.below(4)))
                    .program;
    }
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, timing.str(program)));
    expectGains(program, costs, gained);
    if (HasFailure())
      return;
  }
  EXPECT_GT(gained * stride, 1000u);
}
