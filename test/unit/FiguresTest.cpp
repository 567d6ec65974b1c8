#include "Timeline/Figures.h"

#include "Schedules.h"
#include "Simulated.h"

using namespace sluice;
using namespace sluice::test;

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

/// docs/examples/gpt.sluice, in units of 1/25 ns, so that transfers are whole: 10 and 13 ms, 32 MiB
/// over 50 GB/s after 5 us.
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
