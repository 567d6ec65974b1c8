#include "Timeline/Figures.h"

#include "Schedules.h"
#include "Timeline/BindingTree.h"
#include "Timeline/Slack.h"

#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::test;

static Figures figuresOf(const Program &program, const CostModel &costs) {
  Diagnostics diagnostics;
  ProgramIndex index(program);
  auto timeline = simulate(program, index, costs, diagnostics);
  auto figures = computeFigures(program, index, costs, *timeline, diagnostics);
  EXPECT_TRUE(diagnostics.findings().empty());
  return std::move(*figures);
}
static Rational ratio(int64_t a, int64_t b) { return *Rational::make(a, b); }
static int64_t partsOf(const DeviceTimes &t) {
  return t.fill + t.drain + t.stallTransfer + t.imbalance + t.stallUpstream;
}
static std::vector<uint32_t> peaks(const Figures &figures) {
  std::vector<uint32_t> result;
  for (const DeviceMemory &memory : figures.memory.devices)
    result.push_back(memory.peakActivation);
  return result;
}

/// The file of LANGUAGE.md section 3, in units of 10 ns: 10 and 13 ms, 32 MiB over 50 GB/s after 5 us.
static CostModel wholeFile(const Program &program) {
  CostModel costs = CostModel::ofTicks(4);
  costs.isDefault = costs.ticks = false;
  costs.displayUnit = "us";
  const Rational exact = *add(Rational(5000), *divide(Rational(int64_t(32) << 20), Rational(50)));
  costs.unit = *Rational::make(1, exact.den);
  const int64_t ms = 1'000'000 * exact.den;
  costs.forward = costs.recompute = StageTable<int64_t>({10 * ms, 10 * ms, 10 * ms, 13 * ms});
  costs.backward = StageTable<int64_t>({20 * ms, 20 * ms, 20 * ms, 26 * ms});
  setTransfers(program, costs, exact.num);
  auto all = [](int64_t bytes) { return StageTable<int64_t>(std::vector<int64_t>(4, bytes)); };
  costs.activation = costs.pending = all(int64_t(512) << 20);
  costs.boundary = costs.keptInput = all(int64_t(32) << 20);
  costs.weights.assign(4, int64_t(3) << 30);
  costs.notCounted = {"gradients", "optimizer_state"};
  costs.declaredAt["forward"] = {120, 160};
  costs.batch = 64;
  return costs;
}

TEST(Figures, EqualTheClosedFormsAsFractions) {
  for (uint32_t stages = 1; stages <= 12; ++stages)
    for (uint32_t m = 1; m <= 24; ++m)
      for (const Program &program :
           {gpipe(stages, m), gpipe(stages, m, true), oneFOneB(stages, m), eagerOneFOneB(stages, m)}) {
        CostModel costs = CostModel::ofTicks(stages, 3, 2, 5);
        Figures figures = figuresOf(program, costs);
        SCOPED_TRACE(testing::Message() << program.name << " P=" << stages << " M=" << m);
        EXPECT_EQ(figures.makespan, 10 * (m + stages - 1));
        EXPECT_EQ(figures.overheadRatio, ratio(stages - 1, m));
        EXPECT_EQ(figures.idleFraction, ratio(stages - 1, m + stages - 1));
        EXPECT_EQ(figures.closed.overheadRatio, figures.overheadRatio);
        EXPECT_EQ(figures.closed.idleFraction, figures.idleFraction);
        EXPECT_TRUE(figures.closed.failed.empty());
      }
}

TEST(Figures, PeakActivationsOfTheClassicalOrders) {
  for (uint32_t stages = 1; stages <= 12; ++stages)
    for (uint32_t m = 1; m <= 24; ++m) {
      std::vector<uint32_t> all(stages, m), falling, eager;
      for (uint32_t d = 0; d < stages; ++d) {
        falling.push_back(std::min(stages - d, m));
        eager.push_back(std::min(2 * (stages - d) - 1, m));
      }
      EXPECT_EQ(peaks(figuresOf(gpipe(stages, m), CostModel::ofTicks(stages))), all);
      EXPECT_EQ(peaks(figuresOf(oneFOneB(stages, m), CostModel::ofTicks(stages))), falling);
      EXPECT_EQ(peaks(figuresOf(eagerOneFOneB(stages, m), CostModel::ofTicks(stages))), eager);
      EXPECT_EQ(figuresOf(oneFOneB(stages, m), CostModel::ofTicks(stages)).memory.inFlight, falling);
    }
}

TEST(Figures, OfFourDevicesAndEightMicrobatches) {
  CostModel costs = CostModel::ofTicks(4, 10, 10, 10);
  for (const Program &program : {gpipe(4, 8), oneFOneB(4, 8)}) {
    Figures figures = figuresOf(program, costs);
    EXPECT_EQ(figures.value("makespan"), Rational(330));
    EXPECT_EQ(figures.value("ideal"), Rational(240));
    EXPECT_EQ(figures.value("bubble_time"), Rational(90));
    EXPECT_EQ(figures.value("overhead_ratio"), ratio(3, 8));
    EXPECT_EQ(figures.value("idle_fraction"), ratio(3, 11));
    EXPECT_EQ(figures.value("utilization"), ratio(8, 11));
    EXPECT_EQ(figures.value("transfers"), Rational(2 * 3 * 8));
  }
  EXPECT_EQ(peaks(figuresOf(gpipe(4, 8), costs)), (std::vector<uint32_t>{8, 8, 8, 8}));
  EXPECT_EQ(peaks(figuresOf(oneFOneB(4, 8), costs)), (std::vector<uint32_t>{4, 3, 2, 1}));
}

TEST(Figures, IdleUnderTransfersIsSplitAsThePageSays) {
  Program program = oneFOneB(4, 8);
  CostModel costs = CostModel::ofTicks(4, 1, 1, 0);
  setTransfers(program, costs, 2);
  Figures figures = figuresOf(program, costs);
  EXPECT_EQ(figures.makespan, 54);
  const DeviceTimes &first = figures.times[0];
  EXPECT_EQ(first.idle, 38);
  EXPECT_EQ(first.stallTransfer, 27);
  EXPECT_EQ(first.stallUpstream, 11);
  EXPECT_EQ(first.fill + first.drain + first.imbalance, 0);
  EXPECT_EQ(figures.transferExposed, 54 - 22);
  EXPECT_TRUE(figures.closed.failed.size() == 1);
}

TEST(Figures, OfTheWholeFileOfThePage) {
  Program program = oneFOneB(4, 8);
  CostModel costs = wholeFile(program);
  Figures figures = figuresOf(program, costs);
  auto text = [&](int64_t time) { return formatUnits(costs, time); };
  EXPECT_EQ(text(figures.makespan), "406.056532 ms"); // the page rounds: 406.06, 166.06, 6.76, 72, 87.30
  const DeviceTimes &first = figures.times[0];
  EXPECT_EQ(text(first.idle), "166.056532 ms");
  EXPECT_EQ(text(first.stallTransfer), "6.760886 ms");
  EXPECT_EQ(text(first.imbalance), "72 ms");
  EXPECT_EQ(text(first.stallUpstream), "87.295645 ms");
  EXPECT_EQ(partsOf(first), first.idle);
  // Four saved activations on device 0, three GiB of weights; a gradient of 32 MiB arrives before each end.
  EXPECT_EQ(figures.value("peak_memory", 0), Rational((int64_t(3) << 30) + (int64_t(4 * 512 + 32) << 20)));
  EXPECT_EQ(figures.value("peak_memory"), figures.value("peak_memory", 0));
  ASSERT_EQ(figures.closed.failed.size(), 3u);
  EXPECT_EQ(figures.closed.failed[0].message, "stage 3 has forward 13 ms, stage 0 10 ms");
  EXPECT_EQ(figures.closed.failed[0].span, (Span{120, 160}));
  EXPECT_EQ(figures.closed.order, "1F1B");
  // 64 samples in 0.406… s.
  EXPECT_NEAR(figures.valueInBaseUnits("throughput")->toDouble() * 1e9, 157.61, 0.01);
}

TEST(Figures, IdlePartsAddUpOnRandomSchedules) {
  for (unsigned seed = 1000; seed < 1400; ++seed) {
    RandomSchedule schedule(seed);
    Program program = schedule.build();
    CostModel costs = schedule.costs(program);
    Figures figures = figuresOf(program, costs);
    int64_t idle = 0;
    for (const DeviceTimes &times : figures.times) {
      EXPECT_EQ(times.busy + times.idle, figures.makespan) << "seed " << seed;
      EXPECT_EQ(partsOf(times), times.idle) << "seed " << seed;
      for (int64_t part :
           {times.fill, times.drain, times.stallTransfer, times.imbalance, times.stallUpstream})
        EXPECT_GE(part, 0) << "seed " << seed;
      idle += times.idle;
    }
    EXPECT_EQ(figures.bubbleTime, ratio(idle, static_cast<int64_t>(figures.times.size())));
  }
}

TEST(Figures, CriticalPathIsUnbrokenAndAsLongAsTheMakespan) {
  for (unsigned seed = 2000; seed < 2300; ++seed) {
    RandomSchedule schedule(seed);
    Program program = schedule.build();
    CostModel costs = schedule.costs(program);
    ProgramIndex index(program);
    Diagnostics diagnostics;
    auto timeline = simulate(program, index, costs, diagnostics);
    auto path = criticalPath(program, index, costs, *timeline);
    ASSERT_FALSE(path.empty());
    EXPECT_EQ(path.back().end, timeline->makespan) << "seed " << seed;
    CriticalSummary summary = summarize(path);
    EXPECT_EQ(summary.compute + summary.transfer, timeline->makespan) << "seed " << seed;
    int64_t reached = 0;
    for (const CriticalStep &step : path) {
      EXPECT_EQ(step.start, reached + step.transfer) << "seed " << seed;
      EXPECT_EQ(step.end, timeline->end[step.op]);
      reached = step.end;
    }
  }
}

/// The makespan if one op, no member of an overlap, takes `more` time than it does.
static int64_t makespanWith(const Program &program, const CostModel &costs, const Op &op, int64_t more) {
  CostModel changed = costs;
  StageTable<int64_t> *table = op.kind == OpKind::Forward         ? &changed.forward
                               : op.kind == OpKind::Backward      ? &changed.backward
                               : op.kind == OpKind::BackwardInput ? &changed.backwardInput
                               : op.kind == OpKind::Recompute     ? &changed.recompute
                                                                  : &changed.backwardWeight;
  StageTable<int64_t> longer;
  for (uint32_t m = 0; m < program.microbatches; ++m) {
    std::vector<int64_t> row;
    for (uint32_t s = 0; s < program.stages; ++s)
      row.push_back(table->at(s, m) + (s == op.stage && m == op.microbatch ? more : 0));
    longer.addMicrobatch(row);
  }
  longer.finish();
  *table = std::move(longer);
  Diagnostics diagnostics;
  return simulate(program, ProgramIndex(program), changed, diagnostics)->makespan;
}

TEST(Figures, SlackIsJustWhatAnOpMayTakeLonger) {
  for (unsigned seed = 2600; seed < 2700; ++seed) {
    RandomSchedule schedule(seed);
    Program program = schedule.build();
    CostModel costs = schedule.costs(program);
    ProgramIndex index(program);
    Diagnostics diagnostics;
    auto timeline = simulate(program, index, costs, diagnostics);
    auto slack = slacks(program, index, costs, *timeline);
    for (const CriticalStep &step : criticalPath(program, index, costs, *timeline))
      EXPECT_EQ(slack[step.op], 0) << "seed " << seed;
    for (OpId op = 0; op < program.size(); ++op) {
      if (!program.ops[op].isCompute() || program.ops[op].has(OverlapFirst) ||
          program.ops[op].has(OverlapFollower))
        continue;
      EXPECT_EQ(makespanWith(program, costs, program.ops[op], slack[op]), timeline->makespan);
      EXPECT_EQ(makespanWith(program, costs, program.ops[op], slack[op] + 1), timeline->makespan + 1)
          << "seed " << seed << " " << str(program.ops[op]);
    }
  }
}

TEST(Figures, TheBindingTreeAgreesWithWalkingItsChains) {
  for (unsigned seed = 2300; seed < 2500; ++seed) {
    RandomSchedule schedule(seed);
    Program program = schedule.build();
    CostModel costs = schedule.costs(program);
    setTransfers(program, costs, 1 + seed % 5);
    ProgramIndex index(program);
    Diagnostics diagnostics;
    auto timeline = simulate(program, index, costs, diagnostics);
    Bindings bindings(program, index, costs, *timeline);
    BindingTree tree(program, bindings);
    for (OpId last = 0; last < program.size(); last = program.groupEnd(last)) {
      // Unit of time by unit of time, back from the op's start.
      int64_t transferred = 0, to = bindings.start(last);
      for (OpId op = last; to > 0; op = bindings.of(op).op) {
        const int64_t sent = bindings.start(op) - bindings.of(op).transfer;
        const int64_t begin = bindings.start(bindings.of(op).op);
        for (; to > begin; --to) {
          EXPECT_EQ(tree.transferSince(to, last), transferred) << "seed " << seed;
          transferred += to > sent;
        }
      }
      EXPECT_EQ(tree.transferSince(0, last), transferred) << "seed " << seed;
    }
  }
}

TEST(Figures, LongChainsBehindASlowStageAreSplitTheSameWay) {
  // Every gap leads back to stage 0, so walking alone would take many steps an op.
  Program program = gpipe(12, 40);
  CostModel costs = CostModel::ofTicks(12, 1, 1, 0);
  std::vector<int64_t> forward(12, 1);
  forward[0] = 100;
  costs.forward = StageTable<int64_t>(forward);
  setTransfers(program, costs, 2);
  Figures figures = figuresOf(program, costs);
  for (uint32_t d = 1; d < 12; ++d) {
    EXPECT_EQ(partsOf(figures.times[d]), figures.times[d].idle);
    EXPECT_GE(figures.times[d].stallTransfer, 39 * 2 * static_cast<int64_t>(d));
  }
  // The last device waits 99 after each forward but the last: 22 under transfers, 77 for stages before it.
  EXPECT_EQ(figures.times[11].stallTransfer, 39 * 22);
  EXPECT_EQ(figures.times[11].imbalance, 39 * 77);
  EXPECT_EQ(figures.times[11].stallUpstream, 0);
}

// The slow account of memory: what is live in every interval between two events, added up item by item.
static int64_t slowPeak(const Program &program, const CostModel &costs, const Timeline &timeline,
                        uint32_t device) {
  struct Piece {
    int64_t begin, end, bytes;
  };
  std::vector<Piece> pieces;
  ProgramIndex index(program);
  auto start = [&](OpId op) { return timeline.start(program, costs, op); };
  for (uint32_t s = 0; s < program.stages; ++s)
    for (uint32_t m = 0; m < program.microbatches; ++m) {
      const OpId forward = index.forward(s, m), backward = index.backward(s, m);
      const OpId recompute = index.recompute(s, m), weight = index.weightHalf(s, m);
      if (program.deviceOf(s, m) != device)
        continue;
      const int64_t activation = costs.activation.at(s, m), pending = costs.pending.at(s, m);
      const int64_t boundary = costs.boundary.at(s, m);
      OpId saver = forward;
      if (recompute != noOp) {
        const int64_t input = costs.keptInput.at(s, m);
        const bool grows = activation > input;
        pieces.push_back({start(forward), grows ? start(recompute) : timeline.end[recompute], input});
        pieces.push_back(
            {grows ? start(recompute) : timeline.end[recompute], timeline.end[recompute], activation});
        saver = recompute;
      }
      const int64_t saved = recompute == noOp ? start(saver) : timeline.end[saver];
      if (weight == noOp)
        pieces.push_back({saved, timeline.end[backward], activation});
      else {
        const int64_t turn = pending > activation ? start(backward) : timeline.end[backward];
        pieces.push_back({saved, turn, activation});
        pieces.push_back({turn, timeline.end[weight], pending});
      }
      if (s + 1 == program.stages)
        pieces.push_back({start(forward), timeline.end[backward], boundary});
      else if (program.deviceOf(s + 1, m) != device)
        pieces.push_back({timeline.end[index.backward(s + 1, m)], timeline.end[backward], boundary});
      if (s > 0 && program.deviceOf(s - 1, m) != device)
        pieces.push_back(
            {timeline.end[index.forward(s - 1, m)], start(forward), costs.boundary.at(s - 1, m)});
    }
  int64_t peak = 0;
  for (const Piece &at : pieces) {
    int64_t live = 0;
    for (const Piece &piece : pieces)
      if (piece.begin <= at.begin && at.begin < piece.end)
        live += piece.bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

TEST(Memory, AgreesWithTheSlowAccountOnRandomSchedules) {
  for (unsigned seed = 3000; seed < 3400; ++seed) {
    RandomSchedule schedule(seed);
    Program program = schedule.build();
    CostModel costs = schedule.costs(program);
    // Ops without a duration are live for no time at all, yet need their memory: leave them out here.
    for (auto *table :
         {&costs.forward, &costs.backward, &costs.backwardInput, &costs.backwardWeight, &costs.recompute}) {
      StageTable<int64_t> longer;
      for (uint32_t m = 0; m < program.microbatches; ++m) {
        std::vector<int64_t> row;
        for (uint32_t s = 0; s < program.stages; ++s)
          row.push_back(table->at(s, m) + 1);
        longer.addMicrobatch(row);
      }
      longer.finish();
      *table = std::move(longer);
    }
    Figures figures = figuresOf(program, costs);
    Diagnostics diagnostics;
    auto timeline = simulate(program, ProgramIndex(program), costs, diagnostics);
    for (uint32_t device = 0; device < program.devices; ++device) {
      const DeviceMemory &memory = figures.memory.devices[device];
      EXPECT_EQ(memory.peakBytes, slowPeak(program, costs, *timeline, device)) << "seed " << seed;
      int64_t listed = 0;
      for (const LiveItem &item : memory.livePeak)
        listed += item.bytes;
      EXPECT_EQ(listed, memory.peakBytes) << "seed " << seed;
    }
  }
}

TEST(Memory, SlotsOfSplitBackwardsAndWhatIsLiveAtThePeak) {
  ScheduleBuilder builder("split", {1, 2, 1});
  builder.place([](Stage, Microbatch) { return 0; });
  builder.program(0, [](DeviceProgram &p) {
    p.forward(0, 0), p.forward(0, 1);
    p.backwardInput(0, 0), p.backwardInput(0, 1);
    p.backwardWeight(0, 0), p.backwardWeight(0, 1);
  });
  CostModel costs = CostModel::ofTicks(1);
  costs.isDefault = false;
  auto of = [](int64_t bytes) { return StageTable<int64_t>({bytes}); };
  costs.activation = of(100);
  costs.pending = of(130);
  costs.boundary = of(7);
  costs.weights = {1000};
  costs.workspace = {5};
  costs.reserved = {50};
  DeviceMemory memory = figuresOf(builder.build(), costs).memory.devices[0];
  EXPECT_EQ(memory.peakActivation, 2u);
  EXPECT_EQ(memory.peakSaved, 2u);
  EXPECT_EQ(memory.peakPending, 2u);
  // During the second input half: 130 twice, its output's gradient, workspace and statics.
  EXPECT_EQ(memory.peakBytes, 1000 + 50 + 260 + 7 + 5);
  EXPECT_EQ(memory.peakTime, 3);
  ASSERT_EQ(memory.livePeak.size(), 5u);
  EXPECT_EQ(memory.livePeak[0].kind, LiveKind::Weights);
  EXPECT_EQ(memory.livePeak[1].kind, LiveKind::Pending);
  EXPECT_EQ(memory.livePeak[1].count, 2u);
  EXPECT_EQ(memory.livePeak[2].kind, LiveKind::Reserved);
}

TEST(Memory, KeepNothingHoldsTheReceivedActivationToTheEnd) {
  auto build = [](Keep keep) {
    ScheduleBuilder builder("evaluation", {2, 1, 2});
    builder.place([](Stage s, Microbatch) { return s; });
    builder.program([=](DeviceProgram &p, Device d) { p.forward(d, 0, keep); });
    return builder.build();
  };
  CostModel costs = CostModel::ofTicks(2);
  costs.isDefault = false;
  costs.boundary = StageTable<int64_t>({16, 3});
  costs.activation = StageTable<int64_t>({1, 1});
  EXPECT_EQ(figuresOf(build(Keep::Nothing), costs).memory.devices[1].peakBytes, 16 + 3);
  costs.activation = StageTable<int64_t>({20, 20});
  EXPECT_EQ(figuresOf(build(Keep::All), costs).memory.devices[1].peakBytes, 20 + 3);
}

TEST(Figures, RecomputeIsBusyButNotUseful) {
  ScheduleBuilder builder("recompute", {1, 1, 1});
  builder.place([](Stage, Microbatch) { return 0; });
  builder.program(
      0, [](DeviceProgram &p) { p.forward(0, 0, Keep::Input), p.recompute(0, 0), p.backward(0, 0); });
  Figures figures = figuresOf(builder.build(), CostModel::ofTicks(1));
  EXPECT_EQ(figures.value("busy", 0), Rational(4));
  EXPECT_EQ(figures.value("useful", 0), Rational(3));
  EXPECT_EQ(figures.value("utilization"), ratio(3, 4));
  EXPECT_EQ(figures.value("idle_fraction"), Rational(0));
  EXPECT_EQ(figures.closed.failed.back().message,
            "the order is not GPipe, 1F1B or eager 1F1B: device 0 runs recompute(0, 0) where GPipe has "
            "backward(0, 0)");
}

TEST(Figures, AreFoundByNameOrSayWhatTheyLack) {
  Figures figures = figuresOf(oneFOneB(4, 8), CostModel::ofTicks(4));
  EXPECT_EQ(findFigure("idle_fraction")->unit, FigureUnit::Ratio);
  EXPECT_EQ(findFigure("in_flight")->arity, FigureArity::Stage);
  EXPECT_EQ(findFigure("bubble"), nullptr);
  EXPECT_FALSE(figures.value("peak_memory"));
  EXPECT_EQ(figures.missingSetting("peak_memory"), "`activation`");
  EXPECT_FALSE(figures.value("throughput"));
  EXPECT_FALSE(figures.value("busy", 4));
  EXPECT_FALSE(figures.value("makespan", 0));
  EXPECT_EQ(figures.value("in_flight", 2), Rational(2));
  EXPECT_EQ(figures.value("peak_activation"), Rational(4));
  for (const FigureInfo &info : allFigures())
    EXPECT_TRUE(figures.value(info.name) || !figures.missingSetting(info.name).empty()) << info.name.str();
}

TEST(Figures, ClosedFormsNeedAKnownOrderOnOneStageADevice) {
  Program swapped = oneFOneB(3, 4);
  std::swap(swapped.ops[0], swapped.ops[1]);
  // Microbatch 1 first on device 0 and stage 0: the same figures, perhaps, but no proof.
  Figures figures = figuresOf(swapped, CostModel::ofTicks(3));
  EXPECT_FALSE(figures.closed.overheadRatio);
  ASSERT_EQ(figures.closed.failed.size(), 1u);
  EXPECT_NE(
      figures.closed.failed[0].message.find("device 0 runs forward(0, 1) where GPipe has forward(0, 0)"),
      std::string::npos);

  ScheduleBuilder shared("shared", {2, 1, 1});
  shared.place([](Stage, Microbatch) { return 0; });
  shared.program(
      0, [](DeviceProgram &p) { p.forward(0, 0), p.forward(1, 0), p.backward(1, 0), p.backward(0, 0); });
  EXPECT_EQ(figuresOf(shared.build(), CostModel::ofTicks(2)).closed.failed[0].message,
            "stages 0 and 1 share device 0");
}

TEST(Figures, OverflowIsAFinding) {
  Program program = gpipe(2, 2);
  CostModel costs = CostModel::ofTicks(2);
  costs.isDefault = false;
  costs.activation = StageTable<int64_t>({INT64_MAX / 2 + 1, 1});
  ProgramIndex index(program);
  Diagnostics diagnostics;
  auto timeline = simulate(program, index, costs, diagnostics);
  EXPECT_FALSE(computeFigures(program, index, costs, *timeline, diagnostics));
  ASSERT_EQ(diagnostics.findings().size(), 1u);
  EXPECT_EQ(diagnostics.findings()[0].rule, Rule::ValueOutOfRange);
}
