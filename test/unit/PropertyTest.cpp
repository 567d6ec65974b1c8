// The product against the slow model, on schedules that nobody thought of. Seeds are fixed; a failure
// prints its seed and the whole schedule.
#include "Product.h"
#include "SlowModel.h"
#include "Timeline/CriticalPath.h"

#include <gtest/gtest.h>

using namespace sluice;
using slow::Product;
using slow::RandomSchedule;

namespace {

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
  EXPECT_EQ(times.fill + times.drain + times.stallTransfer + times.imbalance + times.stallUpstream,
            times.idle);
  EXPECT_EQ(memory.peakActivation, expected.peakActivation);
  EXPECT_EQ(memory.peakSaved, expected.peakSaved);
  EXPECT_EQ(memory.peakPending, expected.peakPending);
  EXPECT_EQ(memory.peakBytes, expected.peakMemory);
  int64_t listed = 0;
  for (const LiveItem &item : memory.livePeak)
    listed += item.bytes;
  EXPECT_EQ(listed, memory.peakBytes) << "the list of what is live at the peak";
}

std::string text(const std::optional<Rational> &ratio) { return ratio ? ratio->str() : "nothing"; }

void expectSameFigures(const Product &product, const slow::Figures &expected) {
  const sluice::Figures &figures = *product.figures;
  EXPECT_EQ(figures.makespan, expected.makespan);
  EXPECT_EQ(figures.transferExposed, expected.transferExposed);
  EXPECT_EQ(text(figures.ideal), text(expected.ideal));
  EXPECT_EQ(text(figures.bubbleTime), text(expected.bubbleTime));
  EXPECT_EQ(text(figures.overheadRatio), text(expected.overheadRatio));
  EXPECT_EQ(text(figures.idleFraction), text(expected.idleFraction));
  EXPECT_EQ(text(figures.utilization), text(expected.utilization));
  EXPECT_EQ(text(figures.spanBubbleRate), text(expected.spanBubbleRate));
  EXPECT_EQ(figures.transfers, expected.transfers);
  EXPECT_EQ(figures.bytesMoved, expected.bytesMoved);
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

} // namespace

TEST(Property, LegalSchedules) {
  for (uint64_t seed = 0; seed < 8000; ++seed) {
    RandomSchedule schedule = slow::randomSchedule(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + schedule.str());
    Product product(schedule);
    slow::Verdict expected = slow::judge(product.program, schedule.costs);
    ASSERT_TRUE(expected.isLegal()) << expected.str(); // the generator and the model share no code
    ASSERT_TRUE(product.verdict.clean && product.verdict.complete) << product.findings();
    ASSERT_EQ(product.rules(), *expected.blamed.begin()) << "warnings";
    ASSERT_TRUE(product.timeline && product.figures) << product.findings();
    slow::Run run = slow::run(product.program, schedule.costs);
    expectSameTimes(schedule, product, run);
    expectSameFigures(product, slow::measure(product.program, schedule.costs, run));
    expectCriticalPath(schedule, product);
    if (HasFailure())
      return;
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

namespace {

/// Refused exactly if the model refuses it, for reasons that the model knows; the very reasons where the
/// definition leaves no choice.
void expectSameVerdict(const Product &product, const slow::Verdict &expected, bool onlyOneFault) {
  ASSERT_EQ(product.verdict.clean, expected.isLegal());
  std::set<unsigned> rules = product.rules();
  if (!onlyOneFault || expected.fails(801)) // of unplaced pairs little more can be said
    return;
  for (unsigned rule : rules)
    ASSERT_TRUE(expected.fails(rule)) << rule;
  if (expected.blamed.size() > 1)
    return;
  if (expected.fails(slow::stuck)) {
    ASSERT_TRUE(rules.count(slow::stuck) || !expected.blamed.begin()->empty());
    std::erase_if(rules, [](unsigned rule) { return rule == slow::stuck || rule / 100 == 5; });
  }
  EXPECT_EQ(rules, *expected.blamed.begin());
}

void expectSameMutants(uint64_t seeds, unsigned mutations) {
  unsigned legal = 0, broken = 0;
  std::set<unsigned> seen;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    RandomSchedule schedule = slow::randomSchedule(seed);
    slow::Random random(seed);
    for (unsigned i = 0; i < mutations; ++i)
      slow::mutate(schedule, random);
    Product product(schedule);
    slow::Verdict expected = slow::judge(product.program, schedule.costs);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + schedule.str() + expected.str() +
                 product.findings());
    ++(expected.isLegal() ? legal : broken);
    expectSameVerdict(product, expected, mutations == 1);
    for (const slow::Fault &fault : expected.failing)
      seen.insert(fault.rule);
    if (product.verdict.complete) {
      ASSERT_TRUE(product.timeline);
      expectSameTimes(schedule, product, slow::run(product.program, schedule.costs));
    }
    if (testing::Test::HasFailure())
      return;
  }
  // The mutations spare some schedules and reach every rule.
  EXPECT_GT(legal, 100u);
  EXPECT_GT(broken, 100u);
  for (unsigned rule :
       {201, 202, 203, 204, 205, 206, 207, 208, 209, 210, 302, 501, 502, 503, 505, 506, 514, 801, 802})
    EXPECT_TRUE(seen.count(rule)) << "no mutant fails " << rule;
}

} // namespace

TEST(Property, MutantsOfOneChange) { expectSameMutants(12000, 1); }
TEST(Property, MutantsOfThreeChanges) { expectSameMutants(8000, 3); }
