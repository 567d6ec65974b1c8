// The timeline against a second reading of it (SlowTiming.h), on random schedules with everything that takes
// time: every start and end, every message, where the time of each device goes, and slack by delaying ops.
// Seeds are fixed; a failure prints the schedule.
#include "Passes/LowerCommunication.h"
#include "Passes/OverlapCollectives.h"
#include "RandomExplicit.h"
#include "RandomTiming.h"
#include "SlowTiming.h"
#include "Timeline/CriticalPath.h"
#include "Timeline/Figures.h"
#include "Timeline/Slack.h"
#include "Timeline/Transfers.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::slow;
using slow::Transfers;

namespace {

#ifdef SLUICE_THINNED
// Odd and no multiple of 3: what alternates with the seed keeps alternating.
constexpr uint64_t stride = 7;
#else
constexpr uint64_t stride = 1;
#endif

bool sharesLanes(const CostModel &costs) {
  return std::any_of(costs.links.begin(), costs.links.end(),
                     [](const LinkKind &kind) { return kind.sharing != Sharing::No; });
}

/// What the random schedules have had, so that a test can ask for enough of it.
struct Seen {
  unsigned complete = 0, stuck = 0, queued = 0, fair = 0, calls = 0, moves = 0, tied = 0;
};

void expectSameMessages(const Program &program, const ProgramIndex &index, const CostModel &costs,
                        const Timeline &timeline, const EventTimes &expected, Seen &seen) {
  std::vector<slow::Message> messages;
  forEachTransfer(program, index, costs, timeline, [&](const Transfer &transfer) {
    messages.push_back(
        {transfer.from, transfer.to, transfer.isGradient, transfer.ready, transfer.begin, transfer.end});
    EXPECT_EQ(transfer.fromDevice, program.deviceOf(transfer.from));
    EXPECT_EQ(transfer.toDevice, program.deviceOf(transfer.to));
  });
  std::sort(messages.begin(), messages.end());
  ASSERT_EQ(messages.size(), expected.messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    const slow::Message &ours = messages[i], &theirs = expected.messages[i];
    SCOPED_TRACE(fmt::format("message from {} to {}", theirs.from, theirs.to));
    ASSERT_EQ(ours.from, theirs.from);
    ASSERT_EQ(ours.to, theirs.to);
    EXPECT_EQ(ours.isGradient, theirs.isGradient);
    EXPECT_EQ(ours.ready, theirs.ready);
    EXPECT_EQ(ours.begin, theirs.begin);
    EXPECT_EQ(ours.end, theirs.end);
    seen.queued += theirs.begin > theirs.ready;
  }
}

/// Since when each request is under way, and when it is done.
void expectSameRequests(const Program &program, const CostModel &costs, const Timeline &timeline,
                        const EventTimes &expected, Seen &seen) {
  for (OpId id = 0; id < program.size(); ++id) {
    const Op &op = program.ops[id];
    if (expected.done[id] < 0)
      continue;
    const bool takesTime = !op.isCommunication() && expected.done[id] > expected.met[id];
    (op.kind == OpKind::Offload || op.kind == OpKind::Reload ? seen.moves : seen.calls) += takesTime;
    if (timeline.met.empty()) {
      ASSERT_FALSE(program.isExplicit || takesTime) << id;
      continue;
    }
    EXPECT_EQ(timeline.done[id], expected.done[id]) << id << " done";
    const bool isStored = op.isCommunication() && !costs.channels.isRendezvous();
    if (!isStored) {
      EXPECT_EQ(timeline.met[id], expected.met[id]) << id << " met";
    }
  }
}

std::string text(const std::optional<Rational> &ratio) { return ratio ? ratio->str() : "nothing"; }

void expectSameFigures(const Program &program, const ProgramIndex &index, const CostModel &costs,
                       const Timeline &timeline, const Timing &timing, Seen &seen) {
  Diagnostics diagnostics;
  const auto figures = computeFigures(program, index, costs, timeline, diagnostics);
  ASSERT_TRUE(figures);
  const slow::Figures expected = timing.figures();
  EXPECT_EQ(figures->makespan, expected.makespan);
  EXPECT_EQ(figures->transferExposed, expected.transferExposed);
  EXPECT_EQ(text(figures->ideal), text(expected.ideal));
  EXPECT_EQ(text(figures->bubbleTime), text(expected.bubbleTime));
  EXPECT_EQ(text(figures->overheadRatio), text(expected.overheadRatio));
  EXPECT_EQ(text(figures->idleFraction), text(expected.idleFraction));
  EXPECT_EQ(text(figures->utilization), text(expected.utilization));
  EXPECT_EQ(text(figures->spanBubbleRate), text(expected.spanBubbleRate));
  const auto ranges = timing.stallRanges();
  int64_t largestBusy = 0;
  for (const DeviceFigures &device : expected.devices)
    largestBusy = std::max(largestBusy, device.busy);
  for (uint32_t device = 0; device < program.devices; ++device) {
    SCOPED_TRACE(fmt::format("device {}", device));
    const DeviceTimes &ours = figures->times[device];
    const DeviceFigures &theirs = expected.devices[device];
    EXPECT_EQ(ours.busy, theirs.busy);
    EXPECT_EQ(ours.useful, theirs.useful);
    EXPECT_EQ(ours.idle, theirs.idle);
    EXPECT_EQ(ours.fill, theirs.fill);
    EXPECT_EQ(ours.drain, theirs.drain);
    EXPECT_EQ(ours.fill + ours.drain + ours.stallTransfer + ours.imbalance + ours.stallUpstream, ours.idle);
    const int64_t wait = ours.idle - ours.fill - ours.drain - ours.stallTransfer;
    EXPECT_EQ(ours.imbalance, std::min(wait, largestBusy - ours.busy));
    EXPECT_GE(wait, 0);
    // Through requests in queues ties may be broken either way.
    seen.tied += ranges[device].first != ranges[device].second;
    EXPECT_GE(ours.stallTransfer, ranges[device].first);
    EXPECT_LE(ours.stallTransfer, ranges[device].second);
    if (!program.isExplicit) {
      EXPECT_EQ(ours.stallTransfer, theirs.stallTransfer);
    }
  }
}

/// Later by its slack an op keeps the makespan; by one more it does not. Steps of the critical path have
/// none.
void expectSlack(const Program &program, const CostModel &costs, const std::vector<int64_t> &slack,
                 int64_t makespan, Random &random) {
  ASSERT_EQ(slack.size(), program.size());
  for (unsigned i = 0; i < 6; ++i) {
    const OpId op = random.below(program.size());
    auto delayed = [&](int64_t by) {
      return Timing(program, costs, Transfers::Given, {op, by}).times.makespan();
    };
    EXPECT_EQ(delayed(slack[op]), makespan) << "slack of " << op << " is " << slack[op];
    EXPECT_GT(delayed(slack[op] + 1), makespan) << "slack of " << op << " is " << slack[op];
  }
}

/// Every step starts when the one before has arrived, and all of them make up the makespan.
void expectCriticalPath(const Program &program, const ProgramIndex &index, const CostModel &costs,
                        const Timeline &timeline, const std::vector<int64_t> &slack) {
  int64_t reached = 0;
  for (const CriticalStep &step : criticalPath(program, index, costs, timeline)) {
    EXPECT_EQ(step.start, reached + step.transfer);
    EXPECT_EQ(step.end, timeline.end[step.op]);
    EXPECT_TRUE(slack.empty() || slack[step.op] == 0) << step.op;
    reached = step.end;
  }
  EXPECT_EQ(reached, timeline.makespan);
}

void compare(const Program &program, const CostModel &costs, Seen &seen, Random &random) {
  const ProgramIndex index(program);
  const Timing timing(program, costs);
  const EventTimes &expected = timing.times;
  Diagnostics diagnostics;
  const auto timeline = simulate(program, index, costs, diagnostics);
  ASSERT_EQ(timeline.has_value(), expected.complete);
  ++(timeline ? seen.complete : seen.stuck);
  if (!timeline)
    return;
  EXPECT_EQ(timeline->makespan, expected.makespan());
  for (OpId id = 0; id < program.size(); ++id) {
    EXPECT_EQ(timeline->end[id], expected.end[id]) << id << " ends";
    EXPECT_EQ(timeline->start(program, costs, id), expected.start[id]) << id << " starts";
  }
  expectSameMessages(program, index, costs, *timeline, expected, seen);
  expectSameRequests(program, costs, *timeline, expected, seen);
  if (testing::Test::HasFailure())
    return;
  expectSameFigures(program, index, costs, *timeline, timing, seen);
  const std::vector<int64_t> slack = slacks(program, index, costs, *timeline);
  if (sharesLanes(costs) && costs.laneCount > 0)
    EXPECT_TRUE(slack.empty());
  else if (random.chance(15))
    expectSlack(program, costs, slack, timeline->makespan, random);
  expectCriticalPath(program, index, costs, *timeline, slack);
}

} // namespace

TEST(Timing, InferredCommunication) {
  Seen seen;
  for (uint64_t seed = 0; seed < 3000; seed += stride) {
    const RandomTiming timing = randomTiming(seed, {.sharesLanes = seed % 3 != 0, .skips = seed % 2 == 0});
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, timing.str(timing.program)));
    Random random(seed);
    compare(timing.program, timing.schedule.costs, seen, random);
    if (HasFailure())
      return;
  }
  EXPECT_EQ(seen.stuck, 0u);
  EXPECT_GT(seen.queued * stride, 3000u);
  EXPECT_GT(seen.calls * stride, 3000u);
  EXPECT_GT(seen.moves * stride, 3000u);
}

TEST(Timing, OverlappedCollectives) {
  Seen seen;
  for (uint64_t seed = 10000; seed < 11000; seed += stride) {
    const RandomTiming timing = randomTiming(seed, {.sharesLanes = seed % 2 == 0, .skips = true});
    const Program ours = overlapCollectives(timing.program), theirs = overlapped(timing.program);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, timing.str(theirs)));
    ASSERT_TRUE(ours.ops == theirs.ops && ours.deviceBegin == theirs.deviceBegin);
    Random random(seed);
    compare(theirs, timing.schedule.costs, seen, random);
    if (HasFailure())
      return;
  }
  EXPECT_EQ(seen.stuck, 0u);
}

// Both devices of a transfer are occupied from its begin to its end.
TEST(Timing, BlockingTransfers) {
  Seen seen;
  for (uint64_t seed = 20000; seed < 21000; seed += stride) {
    RandomTiming timing = randomTiming(seed, {.sharesLanes = seed % 3 != 0, .skips = false});
    const Program program =
        *lowerCommunication(timing.program, ProgramIndex(timing.program), CommunicationPlacement::Early);
    CostModel &costs = timing.schedule.costs;
    costs.transfersBlock = true;
    costs.channels = {};
    costs.channels.depth = 0;
    costs.channels.key = ChannelRules::Key::Message;
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, timing.str(program)));
    Random random(seed);
    compare(program, costs, seen, random);
    ASSERT_EQ(seen.stuck, 0u);
    if (HasFailure())
      return;
  }
  EXPECT_TRUE(stride > 1 || seen.queued > 20); // needs two pairs of devices on one lane
}

TEST(Timing, WrittenCommunication) {
  Seen seen;
  for (uint64_t seed = 30000; seed < 32000; seed += stride) {
    RandomTiming timing = randomTiming(seed, {.sharesLanes = seed % 3 != 0, .skips = false});
    Random random(seed);
    CostModel &costs = timing.schedule.costs;
    costs.channels = randomRules(random);
    const RandomExplicit written =
        randomExplicit(timing.schedule, timing.program, seed, static_cast<Writing>(random.below(4)));
    SCOPED_TRACE(fmt::format("seed {} {} {}: {}", seed, written.placement, slow::str(costs.channels),
                             timing.str(written.program)));
    compare(written.program, costs, seen, random);
    if (HasFailure())
      return;
  }
  EXPECT_GT(seen.complete * stride, 1000u);
  EXPECT_GT(seen.stuck * stride, 100u);
  EXPECT_GT(seen.queued * stride, 500u);
}

// What lives while collectives and moves to and from the host take their time.
TEST(Timing, Memory) {
  for (uint64_t seed = 50000; seed < 50600; seed += stride) {
    const RandomTiming timing = randomTiming(seed, {.sharesLanes = seed % 2 == 0, .skips = false});
    const Program &program = timing.program;
    const CostModel &costs = timing.schedule.costs;
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, timing.str(program)));
    const ProgramIndex index(program);
    Diagnostics diagnostics;
    const auto timeline = simulate(program, index, costs, diagnostics);
    ASSERT_TRUE(timeline);
    const auto figures = computeFigures(program, index, costs, *timeline, diagnostics);
    ASSERT_TRUE(figures);
    const MemoryFigures *memory = &figures->memory;
    slow::Figures expected;
    expected.devices.resize(program.devices);
    measureLive(program, costs, Timing(program, costs).asRun(), expected);
    for (uint32_t device = 0; device < program.devices; ++device) {
      EXPECT_EQ(memory->devices[device].peakBytes, expected.devices[device].peakMemory) << device;
      EXPECT_EQ(memory->devices[device].peakActivation, expected.devices[device].peakActivation) << device;
      EXPECT_EQ(memory->devices[device].peakSaved, expected.devices[device].peakSaved) << device;
      EXPECT_EQ(memory->devices[device].peakPending, expected.devices[device].peakPending) << device;
    }
    if (HasFailure())
      return;
  }
}

// Where nothing is shared and nothing but compute and messages takes time, the older slow model says the
// same.
TEST(Timing, EqualsTheSlowModelWhereThatKnowsAll) {
  for (uint64_t seed = 0; seed < 1000; seed += stride) {
    const RandomSchedule schedule = randomSchedule(seed);
    const Program program = schedule.build();
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, schedule.str()));
    const slow::Run older = slow::run(program, schedule.costs);
    const Timing timing(program, schedule.costs);
    for (OpId id = 0; id < program.size(); ++id)
      ASSERT_EQ(timing.times.end[id], older.steps[older.stepOf[id]].finish);
    const slow::Figures figures = timing.figures(), expected = measure(program, schedule.costs, older);
    EXPECT_EQ(figures.transferExposed, expected.transferExposed);
    EXPECT_EQ(text(figures.spanBubbleRate), text(expected.spanBubbleRate));
    for (uint32_t device = 0; device < program.devices; ++device) {
      const DeviceFigures &a = figures.devices[device], &b = expected.devices[device];
      EXPECT_EQ(
          std::tie(a.busy, a.useful, a.idle, a.fill, a.drain, a.stallTransfer, a.imbalance, a.stallUpstream),
          std::tie(b.busy, b.useful, b.idle, b.fill, b.drain, b.stallTransfer, b.imbalance, b.stallUpstream));
    }
    if (HasFailure())
      return;
  }
}
