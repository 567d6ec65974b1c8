// Times of written communication against the naive event graph, and what must hold of them whatever the
// channels: unbroken binding chains, idle parts that add up, and what a weaker channel may not do.
#include "Passes/LowerCommunication.h"
#include "Passes/PostCells.h"
#include "RandomExplicit.h"
#include "SlowTiming.h"
#include "Timeline/BindingTree.h"
#include "Timeline/Figures.h"
#include "Timeline/Slack.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::slow;

namespace {

std::optional<Timeline> timed(const Program &program, const CostModel &costs, const ChannelRules &rules) {
  CostModel local = costs;
  local.channels = rules;
  Diagnostics diagnostics;
  return simulate(program, ProgramIndex(program), local, diagnostics);
}

CostModel withoutTransfers(const CostModel &costs, uint32_t stages) {
  CostModel local = costs;
  local.activationTransfer = local.gradientTransfer = StageTable<int64_t>(std::vector<int64_t>(stages, 0));
  return local;
}

std::string textOf(const Program &program) {
  std::string text;
  for (uint32_t device = 0; device < program.devices; ++device) {
    text += fmt::format("\ndevice {}:", device);
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id)
      text += fmt::format(" {}{};", program.ops[id].has(GroupFollower) ? "& " : "", sluice::str(program, id));
  }
  return text;
}

/// start(op) == end of what binds it + the transfer between, down to time 0.
void expectUnbrokenChains(const Program &program, const CostModel &costs, const Timeline &timeline) {
  const ProgramIndex index(program);
  const Bindings bindings(program, index, costs, timeline);
  for (OpId op = 0; op < program.size(); op = program.groupEnd(op)) {
    const Binding binding = bindings.of(op);
    ASSERT_GE(binding.transfer, 0);
    ASSERT_EQ(bindings.start(op), binding.op == noOp ? 0 : timeline.end[binding.op] + binding.transfer)
        << sluice::str(program, op);
    ASSERT_EQ(binding.arrival, bindings.start(op)) << sluice::str(program, op);
  }
  // A chain that ran in a circle would never end; this visits all of them.
  const BindingTree tree(program, bindings);
  ASSERT_EQ(tree.transferSince(timeline.makespan, 0), 0);
}

void expectIdleAddsUp(const Program &program, const CostModel &costs, const Timeline &timeline) {
  const ProgramIndex index(program);
  Diagnostics diagnostics;
  const auto figures = computeFigures(program, index, costs, timeline, diagnostics);
  ASSERT_TRUE(figures);
  EXPECT_GE(figures->transferExposed, 0);
  for (const DeviceTimes &times : figures->times) {
    EXPECT_EQ(times.busy + times.idle, figures->makespan);
    EXPECT_EQ(times.fill + times.drain + times.stallTransfer + times.imbalance + times.stallUpstream,
              times.idle);
    for (int64_t part : {times.fill, times.drain, times.stallTransfer, times.imbalance, times.stallUpstream})
      EXPECT_GE(part, 0);
  }
  int64_t reached = 0;
  for (const CriticalStep &step : criticalPath(program, index, costs, timeline)) {
    EXPECT_EQ(step.start, reached + step.transfer);
    reached = step.end;
  }
  EXPECT_EQ(reached, timeline.makespan);
  EXPECT_EQ(figures->critical.compute + figures->critical.transfer, timeline.makespan);
}

} // namespace

TEST(EventTimes, EqualTheNaiveGraph) {
  unsigned complete = 0, stuck = 0;
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    const RandomExplicit random = randomExplicit(seed, static_cast<Writing>(seed % 4));
    Random choices(seed);
    const ChannelRules rules = randomRules(choices);
    SCOPED_TRACE(
        fmt::format("seed {} {}: {}{}", seed, random.placement, slow::str(rules), textOf(random.program)));
    CostModel costs = random.schedule.costs;
    costs.channels = rules;
    const EventTimes expected = eventTimes(random.program, costs, rules);
    const auto timeline = timed(random.program, costs, rules);
    ASSERT_EQ(timeline.has_value(), expected.complete);
    ++(expected.complete ? complete : stuck);
    if (!timeline)
      continue;
    ASSERT_EQ(timeline->end, expected.end);
    ASSERT_EQ(timeline->makespan, expected.makespan());
    for (OpId id = 0; id < random.program.size(); ++id) {
      const Op &op = random.program.ops[id];
      if (expected.done[id] < 0)
        continue;
      ASSERT_EQ(timeline->met[id], expected.met[id]) << sluice::str(op);
      ASSERT_EQ(timeline->done[id], expected.done[id]) << sluice::str(op);
    }
    expectUnbrokenChains(random.program, costs, *timeline);
    expectIdleAddsUp(random.program, costs, *timeline);
    const std::vector<int64_t> slack = slacks(random.program, ProgramIndex(random.program), costs, *timeline);
    for (int64_t each : slack)
      ASSERT_GE(each, 0);
    for (const CriticalStep &step :
         criticalPath(random.program, ProgramIndex(random.program), costs, *timeline))
      ASSERT_EQ(slack[step.op], 0) << sluice::str(random.program, step.op);
    if (HasFailure())
      return;
  }
  EXPECT_GT(complete, 2000u);
  EXPECT_GT(stuck, 300u);
}

// With free transfers nothing is ever under way, so no device stalls for it.
TEST(EventTimes, NoTransferNoStall) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const RandomExplicit random = randomExplicit(seed, static_cast<Writing>(seed % 4));
    Random choices(seed);
    CostModel costs = withoutTransfers(random.schedule.costs, random.schedule.stages);
    costs.channels = randomRules(choices);
    const auto timeline = timed(random.program, costs, costs.channels);
    if (!timeline)
      continue;
    for (const DeviceTimes &times :
         deviceTimes(random.program, ProgramIndex(random.program), costs, *timeline))
      ASSERT_EQ(times.stallTransfer, 0) << "seed " << seed;
  }
}

// Cells as PyTorch's runtime runs them, each message a channel of its own without bounds: what is posted
// early enough delays nobody, so every op ends when it does with inferred communication.
TEST(EventTimes, PostedEarlyEqualsInferred) {
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    const RandomSchedule schedule = randomSchedule(seed);
    const Program inferred = schedule.build();
    const ProgramIndex index(inferred);
    const Program posted = postCells(*lowerCommunication(inferred, index, CommunicationPlacement::Early));
    ChannelRules rules;
    rules.key = ChannelRules::Key::Message;
    const auto expected = timed(inferred, schedule.costs, {});
    const auto timeline = timed(posted, schedule.costs, rules);
    ASSERT_TRUE(expected && timeline) << "seed " << seed;
    std::vector<int64_t> ends;
    for (OpId id = 0; id < posted.size(); ++id)
      if (!posted.ops[id].isCommunication())
        ends.push_back(timeline->end[id]);
    ASSERT_EQ(ends, expected->end) << "seed " << seed << schedule.str();
    ASSERT_EQ(timeline->makespan, expected->makespan);
    // Under one queue a direction a short message may stand behind a long one, but nothing is ever earlier;
    // without transfers there are no long ones.
    const auto queued = timed(posted, schedule.costs, {});
    ASSERT_GE(queued->makespan, expected->makespan) << "seed " << seed;
    const CostModel free = withoutTransfers(schedule.costs, schedule.stages);
    ASSERT_EQ(timed(posted, free, {})->makespan, timed(inferred, free, {})->makespan) << "seed " << seed;
  }
}

TEST(EventTimes, WhatWeakerChannelsMayNotDo) {
  unsigned compared = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const RandomExplicit random = randomExplicit(seed, seed % 2 ? Writing::Plain : Writing::WithStarts);
    SCOPED_TRACE(fmt::format("seed {}{}", seed, textOf(random.program)));
    const CostModel &costs = random.schedule.costs;
    ChannelRules rules;
    rules.key = static_cast<ChannelRules::Key>(seed % 3);
    const auto inferred = timed(random.inferred, costs, {});
    std::optional<Timeline> weaker; // the model before, which holds fewer messages
    for (uint32_t depth : {0u, 1u, 2u, ChannelRules::unbounded}) {
      rules.depth = depth;
      const auto timeline = timed(random.program, costs, rules);
      if (!timeline) {
        ASSERT_FALSE(weaker);
        continue;
      }
      // Deferred receives may get another value than the one they name, earlier than their own.
      if (random.placement != "deferred") {
        ASSERT_GE(timeline->makespan, inferred->makespan) << "written communication only adds prerequisites";
      }
      for (OpId id = 0; id < random.program.size(); ++id)
        ASSERT_GE(timeline->done[id], timeline->met[id]);
      // No message passes another on its channel here, and each op is as early as with fewer slots.
      for (OpId id = 0; weaker && id < random.program.size(); ++id)
        ASSERT_LE(timeline->end[id], weaker->end[id]) << sluice::str(random.program, id);
      compared += weaker.has_value();
      weaker = timeline;
    }
  }
  EXPECT_GT(compared, 1000u);
}
