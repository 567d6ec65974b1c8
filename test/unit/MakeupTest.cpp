// What the critical path is made of, what devices are busy with, what passes over links, and what a part that
// is a hundredth faster saves: parts that add up, values worked out by hand, and a second way to each figure.
#include "Schedules.h"
#include "Simulated.h"
#include "Timeline/Transfers.h"

#include <map>

using namespace sluice;
using namespace sluice::test;

static Rational ratio(int64_t a, int64_t b) { return *Rational::make(a, b); }

static StageTable<int64_t> perStage(std::vector<int64_t> times) {
  return StageTable<int64_t>(std::move(times));
}

/// Two links: between devices of one node of two, and between nodes. `latency` of each transfer's time is no
/// size ÷ bandwidth.
static void addLinks(const Program &program, CostModel &costs, int64_t latency, Sharing sharing) {
  costs.links = {{"node", Sharing::No, {}}, {"rack", sharing, {}}};
  costs.routes.clear();
  auto routed = [&](const StageTable<int64_t> &times, int step) {
    StageTable<uint32_t> result;
    for (uint32_t m = 0; m < program.microbatches; ++m) {
      std::vector<uint32_t> row(program.stages, noRoute);
      for (uint32_t s = 0; s < program.stages; ++s) {
        const uint32_t to = s + static_cast<uint32_t>(step);
        if (to >= program.stages || times.at(s, m) == 0)
          continue;
        const uint32_t a = program.deviceOf(s, m), b = program.deviceOf(to, m);
        row[s] = static_cast<uint32_t>(costs.routes.size());
        const bool isRack = a / 2 != b / 2;
        costs.routes.push_back(
            {isRack, isRack && sharing != Sharing::No ? a / 2 : noLane, std::min(latency, times.at(s, m))});
      }
      result.addMicrobatch(row);
    }
    result.finish();
    return result;
  };
  costs.activationRoute = routed(costs.activationTransfer, 1);
  costs.gradientRoute = routed(costs.gradientTransfer, -1);
  costs.laneCount = sharing == Sharing::No ? 0 : (program.devices + 1) / 2;
}

/// Costs of everything that may take time, by seed.
static CostModel costsOfAll(const Program &program, CostModel costs, unsigned seed) {
  Random random(seed);
  setTransfers(program, costs, 2 + below(random, 6));
  addLinks(program, costs, below(random, 3), static_cast<Sharing>(seed % 3));
  for (uint32_t s = 0; s < program.stages; ++s) {
    costs.update.push_back(below(random, 5));
    costs.reduce.push_back(below(random, 9));
  }
  costs.reduceTied.assign(program.ties.size(), below(random, 4));
  return costs;
}

TEST(Makeup, AddsUpToTheMakespan) {
  for (unsigned seed = 3000; seed < 3400; ++seed) {
    RandomSchedule schedule(seed);
    const Program program = schedule.build();
    const Simulated all(program, costsOfAll(program, schedule.costs(program), seed));
    const Makeup &makeup = all.figures.makeup;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    EXPECT_EQ(makeup.sum(), all.timeline.makespan);
    std::optional<Rational> stages = Rational(0);
    for (uint32_t s = 0; s < program.stages; ++s)
      stages = add(*stages, makeup.timeOf(s));
    EXPECT_EQ(*stages, makeup.compute() + makeup.updates());
    EXPECT_EQ(makeup.transfers() + makeup.collectives + makeup.host, all.figures.critical.transfer);
    for (const PathLink &link : makeup.links)
      EXPECT_TRUE(link.latency >= 0 && link.moving >= 0 && link.queueing >= 0);
  }
}

TEST(Makeup, OfASlowLastStageBehindTransfers) {
  // 1F1B of four stages and eight microbatches, the last stage 3 + 3, the others 1 + 1, transfers of 2: the
  // path goes down to stage 3, through all of it, and back up.
  Program program = oneFOneB(4, 8);
  CostModel costs = CostModel::ofTicks(4, 1, 1, 0);
  costs.forward = perStage({1, 1, 1, 3});
  costs.backward = perStage({1, 1, 1, 3});
  setTransfers(program, costs, 2);
  addLinks(program, costs, 1, Sharing::No);
  const Simulated one(program, costs);
  const Makeup &makeup = one.figures.makeup;
  EXPECT_EQ(one.timeline.makespan, 48 + 2 * 3 + 2 * 6);
  EXPECT_EQ(makeup.timeOf(3), Rational(48));
  EXPECT_EQ(makeup.timeOf(0), Rational(2));
  ASSERT_EQ(makeup.links.size(), 2u);
  // Over the links 0-1 and 2-3 of nodes, and 1-2 of the rack, there and back.
  EXPECT_EQ(makeup.links[0].latency, 4);
  EXPECT_EQ(makeup.links[0].moving, 4);
  EXPECT_EQ(makeup.links[1].latency, 2);
  EXPECT_EQ(makeup.links[1].moving, 2);
  EXPECT_EQ(makeup.links[1].queueing, 0);
  EXPECT_EQ(makeup.kinds[0], 24 + 3);
  EXPECT_EQ(makeup.kinds[1], 24 + 3);
}

TEST(Makeup, QueueingIsWhatALaneAdds) {
  // Stages 0 and 1 on devices 0 and 1 send to stages on devices 2 and 3 over one lane; all are ready at 1.
  ScheduleBuilder builder("crossing", {2, 4, 2});
  builder.place([](Stage s, Microbatch) { return Device(s); });
  builder.program([](DeviceProgram &p, Device d) {
    for (uint32_t m = 0; m < 4; ++m)
      p.forward(d, m);
    for (uint32_t m = 0; m < 4; ++m)
      p.backward(d, m);
  });
  Program program = builder.build();
  CostModel costs = CostModel::ofTicks(2, 1, 1, 0);
  setTransfers(program, costs, 5);
  addLinks(program, costs, 0, Sharing::No);
  // One lane for both directions: activations are ready at 1 to 4, and each moves for 5.
  costs.links[0].sharing = Sharing::Fifo;
  for (Route &route : costs.routes)
    route.lane = 0;
  costs.laneCount = 1;
  const Simulated one(program, costs);
  // Forwards of stage 1 at 6, 11, 16, 21; its backwards end at 23 to 26, and their gradients arrive at 28
  // to 43.
  EXPECT_EQ(one.timeline.makespan, 44);
  const Makeup &makeup = one.figures.makeup;
  EXPECT_EQ(makeup.sum(), 44);
  ASSERT_EQ(makeup.links.size(), 1u);
  EXPECT_EQ(makeup.links[0].moving, 10);
  // The last activation was ready at 4 and began at 16, the last gradient was ready at 26 and began at 38.
  EXPECT_EQ(makeup.links[0].queueing, 24);
}

TEST(BusyParts, AddUp) {
  unsigned mixed = 0;
  for (unsigned seed = 3000; seed < 3300; ++seed) {
    RandomSchedule schedule(seed);
    const Program program = schedule.build();
    const Simulated all(program, costsOfAll(program, schedule.costs(program), seed));
    for (uint32_t d = 0; d < program.devices; ++d) {
      const BusyParts &parts = all.figures.busy[d];
      EXPECT_EQ(parts.sum(), all.figures.times[d].busy) << "seed " << seed << " device " << d;
      EXPECT_EQ(parts.compute, all.figures.times[d].useful) << "seed " << seed << " device " << d;
      mixed += parts.update != 0 && parts.collectives != 0;
    }
  }
  EXPECT_GT(mixed, 100u);
}

TEST(Sensitivity, OfBalancedStagesIsOneVisitEach) {
  // Any of the others works through all microbatches as before, so one visit on the way in and one on the way
  // out is all that gets shorter.
  Simulated one(gpipe(4, 8), CostModel::ofTicks(4, 10, 20, 0));
  addDetails(one.figures, one.program, one.index, one.costs, one.timeline, {.sensitivity = true});
  ASSERT_TRUE(one.figures.sensitivity);
  for (uint32_t s = 0; s < 4; ++s)
    EXPECT_EQ(one.figures.value("sensitivity", s), ratio(30, 100));
  EXPECT_TRUE(one.figures.sensitivity->links.empty());
  Simulated alone(oneFOneB(1, 8), CostModel::ofTicks(1, 10, 20, 0));
  addDetails(alone.figures, alone.program, alone.index, alone.costs, alone.timeline, {.sensitivity = true});
  EXPECT_EQ(alone.figures.value("sensitivity", 0), ratio(8 * 30, 100));
}

/// The makespan with every time multiplied by `factor`, and those that `isFaster` by 99/100 of that.
template <typename IsFaster>
static int64_t makespanWith(const Simulated &one, int64_t factor, IsFaster isFaster) {
  CostModel costs = one.costs;
  auto scale = [&](int64_t time, bool faster) { return faster ? time * factor / 100 * 99 : time * factor; };
  auto scaleTable = [&](StageTable<int64_t> &table, const StageTable<uint32_t> *routes) {
    StageTable<int64_t> result;
    for (uint32_t m = 0; m < one.program.microbatches && !table.empty(); ++m) {
      std::vector<int64_t> row;
      for (uint32_t s = 0; s < one.program.stages; ++s)
        row.push_back(scale(table.at(s, m), routes
                                                ? routes->at(s, m) != noRoute &&
                                                      isFaster(noStage, costs.routes[routes->at(s, m)].link)
                                                : isFaster(s, noLink)));
      result.addMicrobatch(row);
    }
    result.finish();
    table = result;
  };
  for (auto *table :
       {&costs.forward, &costs.backward, &costs.backwardInput, &costs.backwardWeight, &costs.recompute})
    scaleTable(*table, nullptr);
  scaleTable(costs.activationTransfer, &costs.activationRoute);
  scaleTable(costs.gradientTransfer, &costs.gradientRoute);
  for (uint32_t s = 0; s < one.program.stages; ++s) {
    costs.update[s] = scale(costs.update[s], isFaster(s, noLink));
    costs.reduce[s] = scale(costs.reduce[s], false);
  }
  for (int64_t &time : costs.reduceTied)
    time = scale(time, false);
  for (auto &[pair, time] : costs.overlapped) {
    const bool first = isFaster(pair.first, noLink), second = isFaster(pair.second, noLink);
    time = first && second   ? time * factor / 100 * 99
           : first || second ? time * factor / 200 * 199
                             : time * factor;
  }
  for (Route &route : costs.routes)
    route.latency = scale(route.latency, isFaster(noStage, route.link));
  Diagnostics diagnostics;
  return simulate(one.program, one.index, costs, diagnostics)->makespan;
}

TEST(Sensitivity, IsTheDifferenceOfTwoTimelines) {
  unsigned gains = 0, shared = 0;
  for (unsigned seed = 3000; seed < 3150; ++seed) {
    RandomSchedule schedule(seed);
    const Program program = schedule.build();
    Simulated one(program, costsOfAll(program, schedule.costs(program), seed));
    addDetails(one.figures, one.program, one.index, one.costs, one.timeline, {.sensitivity = true});
    ASSERT_TRUE(one.figures.sensitivity);
    const Sensitivity &found = *one.figures.sensitivity;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const int64_t factor = 200;
    for (uint32_t s = 0; s < program.stages; ++s) {
      const int64_t faster = makespanWith(one, factor, [&](uint32_t stage, uint32_t) { return stage == s; });
      EXPECT_EQ(found.stages[s], ratio(one.timeline.makespan * factor - faster, factor)) << "stage " << s;
      gains += found.stages[s] != 0;
    }
    for (const LinkSensitivity &link : found.links) {
      const int64_t faster =
          makespanWith(one, factor, [&](uint32_t, uint32_t other) { return other == link.link; });
      EXPECT_EQ(link.gain, ratio(one.timeline.makespan * factor - faster, factor)) << "link " << link.link;
      shared += link.gain != 0 && one.costs.laneCount > 0;
    }
  }
  EXPECT_GT(gains, 100u);
  EXPECT_GT(shared, 10u);
}

TEST(Sensitivity, OfAFusedOverlapIsHalfForEachStage) {
  ScheduleBuilder builder("fused", {2, 2, 1});
  builder.place([](Stage, Microbatch) { return 0; });
  builder.program(0, [](DeviceProgram &p) {
    p.forward(0, 0), p.forward(1, 0);
    p.overlap([&] { p.forward(0, 1), p.backward(1, 0); });
    p.backward(0, 0), p.forward(1, 1), p.backward(1, 1), p.backward(0, 1);
  });
  CostModel costs = CostModel::ofTicks(2, 10, 20, 0);
  costs.overlapped[{0, 1}] = 25;
  Simulated one(builder.build(), costs);
  addDetails(one.figures, one.program, one.index, one.costs, one.timeline, {.sensitivity = true});
  // Stage 0: forward 10, backwards 40 and half of 25; stage 1: forwards 20, backward 20 and the other half.
  EXPECT_EQ(one.figures.value("critical_time", 0), ratio(125, 2));
  EXPECT_EQ(one.figures.value("sensitivity", 0), ratio(125, 200));
  EXPECT_EQ(one.figures.value("sensitivity", 1), ratio(105, 200));
}

TEST(LinkTraffic, CountsByLinkAndLane) {
  Program program = oneFOneB(4, 8);
  CostModel costs = CostModel::ofTicks(4, 10, 10, 0);
  costs.boundary = perStage({100, 100, 100, 100});
  setTransfers(program, costs, 5);
  addLinks(program, costs, 2, Sharing::Fifo);
  Simulated one(program, costs);
  addDetails(one.figures, one.program, one.index, one.costs, one.timeline, {.links = true});
  ASSERT_EQ(one.figures.links.size(), 2u);
  const LinkTraffic &node = one.figures.links[0], &rack = one.figures.links[1];
  EXPECT_EQ(node.transfers, 32); // 0-1 and 2-3, both directions
  EXPECT_EQ(node.lanes, 4u);
  EXPECT_EQ(node.busiest, 8 * 3);
  EXPECT_EQ(rack.transfers, 16);
  EXPECT_EQ(rack.bytes, 1600);
  EXPECT_EQ(rack.lanes, 2u); // one a sending node
  EXPECT_EQ(rack.busiest, 8 * 3);
  EXPECT_EQ(node.transfers + rack.transfers, one.figures.transfers);
  EXPECT_EQ(node.bytes + rack.bytes, one.figures.bytesMoved);
}

TEST(LinkTraffic, CountsEachMessageOnce) {
  for (unsigned seed = 3000; seed < 3200; ++seed) {
    RandomSchedule schedule(seed);
    const Program program = schedule.build();
    const Simulated one(program, costsOfAll(program, schedule.costs(program), seed));
    std::map<uint32_t, LinkTraffic> expected;
    std::map<std::pair<uint32_t, uint64_t>, int64_t> lanes;
    forEachTransfer(program, one.index, one.costs, one.timeline, [&](const Transfer &transfer) {
      LinkTraffic &traffic = expected[transfer.link];
      ++traffic.transfers;
      traffic.bytes += transfer.bytes;
      const bool isShared = transfer.lane != noLane;
      const uint64_t lane =
          isShared ? transfer.lane : (uint64_t(transfer.fromDevice + 1) << 32) + transfer.toDevice;
      const Op &op = program.ops[transfer.from];
      const StageTable<uint32_t> &routes =
          transfer.isGradient ? one.costs.gradientRoute : one.costs.activationRoute;
      const StageTable<int64_t> &times =
          transfer.isGradient ? one.costs.gradientTransfer : one.costs.activationTransfer;
      lanes[{transfer.link, lane}] +=
          times.at(op.stage, op.microbatch) - one.costs.routes[routes.at(op.stage, op.microbatch)].latency;
    });
    const std::vector<LinkTraffic> found = linkTraffic(program, one.index, one.costs);
    ASSERT_EQ(found.size(), expected.size()) << "seed " << seed;
    for (const LinkTraffic &traffic : found) {
      EXPECT_EQ(traffic.transfers, expected[traffic.link].transfers) << "seed " << seed;
      EXPECT_EQ(traffic.bytes, expected[traffic.link].bytes) << "seed " << seed;
      uint32_t count = 0;
      int64_t most = 0;
      for (const auto &[key, time] : lanes)
        if (key.first == traffic.link) {
          ++count;
          most = std::max(most, time);
        }
      EXPECT_EQ(traffic.lanes, count) << "seed " << seed;
      EXPECT_EQ(traffic.busiest, most) << "seed " << seed;
    }
  }
}

TEST(Figures, HeadroomIsTheLeastOfAnyDevice) {
  CostModel costs = CostModel::ofTicks(4);
  costs.isDefault = false;
  costs.activation = perStage({10, 10, 10, 10});
  costs.memoryLimit = {50, 50, 50, 50};
  const Program program = oneFOneB(4, 8);
  Figures figures = figuresOf(program, costs);
  EXPECT_EQ(figures.value("headroom"), Rational(10));
  EXPECT_EQ(figures.value("headroom", 3), Rational(40));
  EXPECT_EQ(figures.fits(), true);
  costs.memoryLimit = {39, 50, 50, 50};
  figures = figuresOf(program, costs);
  EXPECT_EQ(figures.value("headroom"), Rational(-1));
  EXPECT_EQ(figures.fits(), false);
  costs.memoryLimit.clear();
  EXPECT_EQ(figuresOf(program, costs).fits(), std::nullopt);
}

TEST(Figures, ClosedFormsAreDeclinedWhereOtherWorkTakesTime) {
  auto reasonsOf = [](const CostModel &costs) {
    std::vector<std::string> messages;
    const Figures figures = figuresOf(oneFOneB(4, 8), costs);
    EXPECT_FALSE(figures.closed.overheadRatio);
    for (const FailedAssumption &failed : figures.closed.failed)
      messages.push_back(failed.message);
    return messages;
  };
  CostModel updates = CostModel::ofTicks(4);
  updates.update = {0, 0, 7, 0};
  EXPECT_EQ(reasonsOf(updates), std::vector<std::string>{"update(2) occupies device 2 for 7 ticks"});
  CostModel reductions = CostModel::ofTicks(4);
  reductions.reduce = {0, 5, 0, 0};
  // Device 1 is done 3 ticks before device 0: two of the five show.
  EXPECT_EQ(reasonsOf(reductions),
            (std::vector<std::string>{"reduce(1) occupies device 1 for 5 ticks",
                                      "transfers, collectives lengthen the makespan by 3 ticks"}));
}
