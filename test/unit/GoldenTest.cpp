// Orders that other systems' own generators printed, against an independent re-timing of them: legal here,
// and the same figures to 1e-9 relative.
#include "GoldenOrders.h"
#include "Timeline/Figures.h"
#include "Verify/Verify.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::golden;

namespace {

void expectNear(double ours, double theirs) {
  EXPECT_LE(std::abs(ours - theirs), 1e-9 * std::max(1.0, std::abs(theirs))) << ours << " and " << theirs;
}

/// Their overhead ratio is over the largest busy time, ours over the mean: the same where all devices work
/// alike.
void compareOverhead(const sluice::Figures &figures, double theirs) {
  int64_t largest = 0, smallest = figures.makespan;
  for (const DeviceTimes &device : figures.times) {
    largest = std::max(largest, device.busy);
    smallest = std::min(smallest, device.busy);
  }
  expectNear(static_cast<double>(figures.makespan - largest) / static_cast<double>(largest), theirs);
  if (largest == smallest)
    expectNear(figures.overheadRatio->toDouble(), theirs);
  else
    EXPECT_GT(figures.overheadRatio->toDouble(), theirs);
}

/// Their unit is a microbatch on a device's share: chunks times devices over stages.
void comparePeaks(const sluice::Figures &figures, const Program &program, const char *name,
                  const std::vector<double> &theirs) {
  ASSERT_EQ(theirs.size(), program.devices);
  for (uint32_t d = 0; d < program.devices; ++d)
    expectNear(figures.value(name, d)->toDouble() * program.devices / program.stages, theirs[d]);
}

/// A lane that all messages share delays none of them where they are latency alone.
void compareShared(const Program &program, const ProgramIndex &index, CostModel costs, Sharing sharing,
                   const Timeline &expected) {
  costs.links[0].sharing = sharing;
  costs.routes[0].lane = 0;
  costs.laneCount = 1;
  Diagnostics diagnostics;
  const std::optional<Timeline> timeline = simulate(program, index, costs, diagnostics);
  ASSERT_TRUE(timeline.has_value());
  EXPECT_EQ(timeline->end, expected.end);
}

void compare(const Order &order) {
  Program program = programOf(order);
  ProgramIndex index(program);
  int64_t perCost = 1;
  CostModel costs = costsOf(order, program, perCost);
  Diagnostics diagnostics;
  ASSERT_TRUE(verify(program, index, costs, diagnostics).clean);
  std::optional<Timeline> timeline = simulate(program, index, costs, diagnostics);
  ASSERT_TRUE(timeline.has_value());
  std::optional<sluice::Figures> figures = computeFigures(program, index, costs, *timeline, diagnostics);
  ASSERT_TRUE(figures.has_value());
  expectNear(static_cast<double>(figures->makespan) / static_cast<double>(perCost), order.figures->makespan);
  expectNear(figures->idleFraction->toDouble(), order.figures->idleFraction);
  expectNear(figures->spanBubbleRate->toDouble(), order.figures->spanBubbleRate);
  compareOverhead(*figures, order.figures->overheadRatio);
  ASSERT_EQ(order.figures->idle.size(), program.devices);
  for (uint32_t d = 0; d < program.devices; ++d)
    expectNear(static_cast<double>(figures->times[d].idle) / static_cast<double>(perCost),
               order.figures->idle[d]);
  compareShared(program, index, costs, order.stages() % 2 ? Sharing::Fair : Sharing::Fifo, *timeline);
  comparePeaks(*figures, program, "peak_activation", order.peakAtWeight);
  comparePeaks(*figures, program, "peak_saved", order.peakAtInput);
}

} // namespace

TEST(Golden, FiguresAreThoseOfTheReTiming) {
  unsigned compared = 0;
  for (const Order &order : readOrders(SLUICE_GOLDENS "/orders")) {
    if (!order.figures)
      continue;
    SCOPED_TRACE(order.name + ", " + order.source);
    compare(order);
    ++compared;
  }
  EXPECT_EQ(compared, 399u);
}
