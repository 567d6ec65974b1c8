// The product against the slow model, on schedules that nobody thought of. Seeds are fixed; a failure
// prints its seed and the whole schedule.
#include "RandomSchedules.h"
#include "SlowModel.h"
#include "Timeline/CriticalPath.h"
#include "Timeline/Figures.h"
#include "Verify/Verify.h"

#include <gtest/gtest.h>

using namespace sluice;
using slow::RandomSchedule;

namespace {

/// 1F1B on as many devices as stages, with one forward and one backward cost for each.
RandomSchedule oneForwardOneBackward(uint32_t devices, uint32_t microbatches) {
  RandomSchedule schedule = slow::emptySchedule(devices, microbatches, devices);
  for (std::vector<uint32_t> &row : schedule.placement)
    for (uint32_t s = 0; s < devices; ++s)
      row[s] = s;
  for (uint32_t d = 0; d < devices; ++d) {
    auto add = [&](OpKind kind, uint32_t m) { schedule.steps[d].push_back({Op{kind, 0, uint16_t(d), m}}); };
    const uint32_t warmup = std::min(devices - 1 - d, microbatches);
    for (uint32_t m = 0; m < warmup; ++m)
      add(OpKind::Forward, m);
    for (uint32_t m = warmup; m < microbatches + warmup; ++m) {
      if (m < microbatches)
        add(OpKind::Forward, m);
      add(OpKind::Backward, m - warmup);
    }
    add(OpKind::Reduce, noMicrobatch);
    add(OpKind::Update, noMicrobatch);
  }
  return schedule;
}

/// What the product says of a schedule; `timeline` and `figures` only where it runs to its end.
struct Product {
  Program program;
  ProgramIndex index;
  Diagnostics diagnostics;
  Verdict verdict;
  std::optional<Timeline> timeline;
  std::optional<sluice::Figures> figures;

  explicit Product(const RandomSchedule &schedule)
      : program(schedule.build()), index(program),
        verdict(verify(program, index, schedule.costs, diagnostics)) {
    if (verdict.complete)
      measure(schedule);
  }
  void measure(const RandomSchedule &schedule) {
    timeline = simulate(program, index, schedule.costs, diagnostics);
    if (timeline)
      figures = computeFigures(program, index, schedule.costs, *timeline, diagnostics);
  }
  std::set<unsigned> rules() const {
    std::set<unsigned> numbers;
    for (const Finding &finding : diagnostics.findings())
      numbers.insert(info(finding.rule).number);
    return numbers;
  }
  /// Rule, message, note by note: for failures.
  std::string findings() const {
    std::string text;
    for (const Finding &finding : diagnostics.findings())
      text += std::to_string(info(finding.rule).number) + " " + finding.message + "\n";
    return text;
  }
};

void expectSameTimes(const RandomSchedule &schedule, const Product &product, const slow::Run &run) {
  for (OpId id = 0; id < product.program.size(); ++id) {
    const slow::Step &step = run.steps[run.stepOf[id]];
    EXPECT_EQ(product.timeline->end[id], step.finish) << str(product.program.ops[id]) << " ends";
    EXPECT_EQ(product.timeline->start(product.program, schedule.costs, id), step.start)
        << str(product.program.ops[id]) << " starts";
  }
}

void expectSameDevice(const Product &product, const slow::DeviceFigures &expected, uint32_t device) {
  const DeviceTimes &times = product.figures->times[device];
  const DeviceMemory &memory = product.figures->memory.devices[device];
  EXPECT_EQ(times.busy, expected.busy);
  EXPECT_EQ(times.useful, expected.useful);
  EXPECT_EQ(times.idle, expected.idle);
  EXPECT_EQ(times.fill, expected.fill);
  EXPECT_EQ(times.drain, expected.drain);
  EXPECT_EQ(times.stallTransfer, expected.stallTransfer);
  EXPECT_EQ(times.imbalance, expected.imbalance);
  EXPECT_EQ(times.stallUpstream, expected.stallUpstream);
  EXPECT_EQ(times.fill + times.drain + times.stallTransfer + times.imbalance + times.stallUpstream, times.idle);
  EXPECT_EQ(memory.peakActivation, expected.peakActivation);
  EXPECT_EQ(memory.peakSaved, expected.peakSaved);
  EXPECT_EQ(memory.peakPending, expected.peakPending);
  EXPECT_EQ(memory.peakBytes, expected.peakMemory);
  int64_t listed = 0;
  for (const LiveItem &item : memory.livePeak)
    listed += item.bytes;
  EXPECT_EQ(listed, memory.peakBytes) << "the list of what is live at the peak";
}

void expectSameFigures(const Product &product, const slow::Figures &expected) {
  const sluice::Figures &figures = *product.figures;
  EXPECT_EQ(figures.makespan, expected.makespan);
  EXPECT_EQ(figures.transferExposed, expected.transferExposed);
  EXPECT_EQ(figures.ideal.str(), expected.ideal.str());
  EXPECT_EQ(figures.bubbleTime.str(), expected.bubbleTime.str());
  EXPECT_EQ(figures.transfers, expected.transfers);
  EXPECT_EQ(figures.bytesMoved, expected.bytesMoved);
  if (expected.makespan > 0) {
    EXPECT_EQ(figures.overheadRatio->str(), expected.overheadRatio.str());
    EXPECT_EQ(figures.idleFraction->str(), expected.idleFraction.str());
    EXPECT_EQ(figures.utilization->str(), expected.utilization.str());
    EXPECT_EQ(figures.spanBubbleRate->str(), expected.spanBubbleRate.str());
  }
  for (uint32_t device = 0; device < product.program.devices; ++device) {
    SCOPED_TRACE("device " + std::to_string(device));
    expectSameDevice(product, expected.devices[device], device);
  }
}

/// Every step starts when the one before has arrived, and all of them make up the makespan.
void expectCriticalPath(const RandomSchedule &schedule, const Product &product) {
  int64_t time = 0;
  for (const CriticalStep &step :
       criticalPath(product.program, product.index, schedule.costs, *product.timeline)) {
    EXPECT_EQ(step.start, time + step.transfer);
    EXPECT_EQ(step.end, product.timeline->end[step.op]);
    time = step.end;
  }
  EXPECT_EQ(time, product.timeline->makespan);
}

/// The same sizes, but 0 for the last stage.
StageTable<int64_t> withoutLast(const StageTable<int64_t> &table, uint32_t microbatches) {
  StageTable<int64_t> result;
  for (uint32_t m = 0; m < microbatches; ++m) {
    std::vector<int64_t> values;
    for (uint32_t s = 0; s < table.stageCount(); ++s)
      values.push_back(s + 1 < table.stageCount() ? table.at(s, m) : 0);
    result.addMicrobatch(values);
  }
  result.finish();
  return result;
}

StageTable<int64_t> row(std::vector<int64_t> values) { return StageTable<int64_t>(std::move(values)); }

} // namespace

// The worked values of the language's definition hold for the model itself.
TEST(SlowModel, TransferOfTwo) {
  RandomSchedule schedule = oneForwardOneBackward(4, 8);
  schedule.costs.backward = row({1, 1, 1, 1});
  schedule.costs.activationTransfer = row({2, 2, 2, 0});
  schedule.costs.gradientTransfer = row({0, 2, 2, 2});
  Program program = schedule.build();
  EXPECT_TRUE(slow::judge(program, schedule.costs).isLegal());
  slow::Figures figures = slow::measure(program, schedule.costs, slow::run(program, schedule.costs));
  EXPECT_EQ(figures.makespan, 54);
  EXPECT_EQ(figures.devices[0].idle, 38);
  EXPECT_EQ(figures.devices[0].stallTransfer, 27);
  EXPECT_EQ(figures.devices[0].imbalance, 0);
  EXPECT_EQ(figures.devices[0].stallUpstream, 11);
}

TEST(SlowModel, WholeFileOfTheReference) {
  RandomSchedule schedule = oneForwardOneBackward(4, 8);
  CostModel &costs = schedule.costs; // nanoseconds; 5 us and 32 MiB at 50 GB/s
  const int64_t ms = 1'000'000, transfer = 5'000 + 671'089;
  costs.forward = row({10 * ms, 10 * ms, 10 * ms, 13 * ms});
  costs.backward = row({20 * ms, 20 * ms, 20 * ms, 26 * ms});
  costs.activationTransfer = row({transfer, transfer, transfer, 0});
  costs.gradientTransfer = row({0, transfer, transfer, transfer});
  Program program = schedule.build();
  slow::Figures figures = slow::measure(program, costs, slow::run(program, costs));
  auto hundredths = [](int64_t nanoseconds) { return (nanoseconds + 5'000) / 10'000; };
  EXPECT_EQ(hundredths(figures.makespan), 40606);
  EXPECT_EQ(hundredths(figures.devices[0].idle), 16606);
  EXPECT_EQ(hundredths(figures.devices[0].stallTransfer), 676);
  EXPECT_EQ(hundredths(figures.devices[0].imbalance), 7200);
  EXPECT_EQ(hundredths(figures.devices[0].stallUpstream), 8730);
}

TEST(RandomSchedules, AreLegal) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    RandomSchedule schedule = slow::randomSchedule(seed);
    Program program = schedule.build();
    slow::Verdict verdict = slow::judge(program, schedule.costs);
    ASSERT_TRUE(verdict.isLegal()) << "seed " << seed << "\n" << schedule.str();
    slow::Run result = slow::run(program, schedule.costs);
    ASSERT_TRUE(result.complete);
    slow::measure(program, schedule.costs, result);
  }
}

TEST(Property, TimelineAndFigures) {
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    RandomSchedule schedule = slow::randomSchedule(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + schedule.str());
    Product product(schedule);
    slow::Run run = slow::run(product.program, schedule.costs);
    ASSERT_TRUE(product.timeline && product.figures) << product.findings();
    expectSameTimes(schedule, product, run);
    expectSameFigures(product, slow::measure(product.program, schedule.costs, run));
    expectCriticalPath(schedule, product);
    if (HasFailure())
      return;
  }
}

TEST(Property, LegalSchedulesAreClean) {
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    RandomSchedule schedule = slow::randomSchedule(seed);
    Product product(schedule);
    slow::Verdict expected = slow::judge(product.program, schedule.costs);
    ASSERT_TRUE(expected.isLegal() && product.verdict.clean && product.verdict.complete)
        << "seed " << seed << ": " << schedule.str() << product.findings();
    ASSERT_EQ(product.rules(), expected.blamed) << "seed " << seed << ": " << schedule.str();
  }
}

// An evaluation has only forwards, some of which keep nothing: no verdict, but times and memory.
TEST(Property, ForwardsAlone) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    RandomSchedule schedule = slow::randomSchedule(seed);
    slow::Random random(seed);
    for (std::vector<std::vector<Op>> &steps : schedule.steps) {
      for (std::vector<Op> &step : steps)
        std::erase_if(step, [](const Op &op) { return op.kind != OpKind::Forward; });
      std::erase_if(steps, [](const std::vector<Op> &step) { return step.empty(); });
      for (std::vector<Op> &step : steps)
        if (random.chance(70))
          step.front().flags = KeepNothing;
    }
    // Nobody says how long an output stays that no backward waits for: it counts nothing here.
    schedule.costs.boundary = withoutLast(schedule.costs.boundary, schedule.microbatches);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + schedule.str());
    Product product(schedule);
    product.measure(schedule);
    slow::Run run = slow::run(product.program, schedule.costs);
    ASSERT_TRUE(product.timeline && product.figures) << product.findings();
    expectSameTimes(schedule, product, run);
    expectSameFigures(product, slow::measure(product.program, schedule.costs, run));
    if (HasFailure())
      return;
  }
}

// A mutant is refused exactly if the model refuses it, and for a reason that the model knows.
TEST(Property, Mutants) {
  unsigned legal = 0, broken = 0;
  std::set<unsigned> seen;
  for (uint64_t seed = 0; seed < 12000; ++seed) {
    RandomSchedule schedule = slow::randomSchedule(seed);
    slow::Random random(seed);
    slow::mutate(schedule, random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + schedule.str());
    Product product(schedule);
    slow::Verdict expected = slow::judge(product.program, schedule.costs);
    ++(expected.isLegal() ? legal : broken);
    ASSERT_EQ(product.verdict.clean, expected.isLegal()) << expected.str() << product.findings();
    for (unsigned rule : product.rules())
      ASSERT_TRUE(expected.fails(rule)) << rule << "; " << expected.str() << product.findings();
    ASSERT_EQ(product.rules(), expected.blamed) << expected.str() << product.findings();
    seen.insert(expected.blamed.begin(), expected.blamed.end());
    if (product.verdict.complete) {
      ASSERT_TRUE(product.timeline) << product.findings();
      expectSameTimes(schedule, product, slow::run(product.program, schedule.costs));
    }
    if (HasFailure())
      return;
  }
  // The mutations reach every rule, and leave enough alone.
  EXPECT_GT(legal, 1000u);
  EXPECT_GT(broken, 1000u);
  for (unsigned rule : {201, 202, 203, 204, 205, 206, 207, 208, 209, 210, 302, 501, 502, 503, 505, 506, 514, 801, 802})
    EXPECT_TRUE(seen.count(rule)) << rule;
}
