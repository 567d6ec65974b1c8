// Orders that other systems' own generators printed, against an independent re-timing of them: the data
// and its sources are in test/goldens/resim.txt. Legal here, and the same figures to 1e-9 relative.
#include "RandomSchedules.h"
#include "Timeline/Figures.h"
#include "Verify/Verify.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <sstream>

using namespace sluice;

namespace {

/// One block of the file. Costs are decimal numbers; `costPerUnit` of them make one unit of time.
struct Golden {
  std::string name, source;
  double forward = 0, input = 0, weight = 0, overlap = -1, latency = 0;
  double makespan = 0, idleFraction = 0, overheadRatio = 0, spanBubbleRate = 0;
  std::vector<std::vector<std::string>> rows; ///< Cells of each device.
};

/// Costs have at most one decimal.
constexpr double unitsPerCost = 10;

int64_t units(double cost) { return std::llround(cost * unitsPerCost); }

/// `F3@1`, `B3@1`, `W3@1`, `BW3@1`.
Op opOf(const std::string &cell) {
  const size_t digits = cell.find_first_of("0123456789"), at = cell.find('@');
  static const std::map<std::string, OpKind> kinds = {{"F", OpKind::Forward},
                                                      {"B", OpKind::BackwardInput},
                                                      {"W", OpKind::BackwardWeight},
                                                      {"BW", OpKind::Backward}};
  return {kinds.at(cell.substr(0, digits)), 0, static_cast<uint16_t>(std::stoul(cell.substr(at + 1))),
          static_cast<uint32_t>(std::stoul(cell.substr(digits, at - digits)))};
}

/// One op, or the members of `O[a|b]`.
std::vector<Op> stepOf(const std::string &cell) {
  if (cell.front() != 'O')
    return {opOf(cell)};
  const size_t bar = cell.find('|');
  return {opOf(cell.substr(2, bar - 2)), opOf(cell.substr(bar + 1, cell.size() - bar - 2))};
}

std::vector<Golden> readGoldens(const std::string &path) {
  std::vector<Golden> goldens;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first.empty() || first == "#")
      continue;
    if (first == "schedule")
      goldens.emplace_back();
    Golden &golden = goldens.back();
    if (first == "schedule") {
      std::getline(words >> std::ws, golden.name);
    } else if (first == "source") {
      std::getline(words >> std::ws, golden.source);
    } else if (first == "cost") {
      std::string overlap;
      words >> golden.forward >> golden.input >> golden.weight >> overlap >> golden.latency;
      golden.overlap = overlap == "-" ? -1 : std::stod(overlap);
    } else if (first == "figures") {
      words >> golden.makespan >> golden.idleFraction >> golden.overheadRatio >> golden.spanBubbleRate;
    } else {
      golden.rows.emplace_back();
      for (std::string cell; words >> cell;)
        golden.rows.back().push_back(cell);
    }
  }
  return goldens;
}

/// Stages are placed where their forwards stand; a transfer costs the latency wherever it crosses.
slow::RandomSchedule scheduleOf(const Golden &golden) {
  std::vector<std::vector<std::vector<Op>>> steps;
  uint32_t stages = 0, microbatches = 0;
  for (const std::vector<std::string> &row : golden.rows) {
    steps.emplace_back();
    for (const std::string &cell : row) {
      steps.back().push_back(stepOf(cell));
      for (const Op &op : steps.back().back()) {
        stages = std::max(stages, op.stage + 1u);
        microbatches = std::max(microbatches, op.microbatch + 1);
      }
    }
  }
  const uint32_t devices = static_cast<uint32_t>(steps.size());
  slow::RandomSchedule schedule = slow::emptySchedule(stages, microbatches, devices);
  for (uint32_t d = 0; d < devices; ++d)
    for (const std::vector<Op> &step : steps[d])
      for (const Op &op : step)
        if (op.kind == OpKind::Forward)
          schedule.placement[op.microbatch][op.stage] = d;
  schedule.steps = std::move(steps);
  CostModel &costs = schedule.costs =
      CostModel::ofTicks(stages, units(golden.forward), units(golden.input), units(golden.weight));
  costs.activationTransfer = costs.gradientTransfer = {};
  std::vector<int64_t> outputs(stages), gradients(stages);
  for (uint32_t m = 0; m < microbatches; ++m) {
    for (uint32_t s = 0; s + 1 < stages; ++s)
      outputs[s] = gradients[s + 1] =
          schedule.placement[m][s] == schedule.placement[m][s + 1] ? 0 : units(golden.latency);
    costs.activationTransfer.addMicrobatch(outputs);
    costs.gradientTransfer.addMicrobatch(gradients);
  }
  if (golden.overlap >= 0)
    for (uint32_t s = 0; s < stages; ++s)
      for (uint32_t t = 0; t < stages; ++t)
        costs.overlapped[{s, t}] = units(golden.overlap);
  return schedule;
}

void expectNear(double ours, double theirs) {
  EXPECT_LE(std::abs(ours - theirs), 1e-9 * std::max(1.0, std::abs(theirs))) << ours << " and " << theirs;
}

void compare(const Golden &golden) {
  slow::RandomSchedule schedule = scheduleOf(golden);
  Program program = schedule.build();
  ProgramIndex index(program);
  Diagnostics diagnostics;
  ASSERT_TRUE(verify(program, index, schedule.costs, diagnostics).clean);
  std::optional<Timeline> timeline = simulate(program, index, schedule.costs, diagnostics);
  ASSERT_TRUE(timeline.has_value());
  std::optional<Figures> figures = computeFigures(program, index, schedule.costs, *timeline, diagnostics);
  ASSERT_TRUE(figures.has_value());
  int64_t largestBusy = 0, smallestBusy = figures->makespan;
  for (const DeviceTimes &device : figures->times) {
    largestBusy = std::max(largestBusy, device.busy);
    smallestBusy = std::min(smallestBusy, device.busy);
  }
  const double overLargest =
      static_cast<double>(figures->makespan - largestBusy) / static_cast<double>(largestBusy);
  expectNear(static_cast<double>(figures->makespan) / unitsPerCost, golden.makespan);
  expectNear(figures->idleFraction->toDouble(), golden.idleFraction);
  expectNear(overLargest, golden.overheadRatio);
  expectNear(figures->spanBubbleRate->toDouble(), golden.spanBubbleRate);
  // Ours divides by the mean, which is the same where all devices work alike.
  if (largestBusy == smallestBusy)
    expectNear(figures->overheadRatio->toDouble(), golden.overheadRatio);
  else
    EXPECT_GT(figures->overheadRatio->toDouble(), golden.overheadRatio);
}

} // namespace

TEST(Golden, OrdersOfOtherSystems) {
  std::vector<Golden> goldens = readGoldens(SLUICE_GOLDENS "/resim.txt");
  ASSERT_EQ(goldens.size(), 36u);
  for (const Golden &golden : goldens) {
    SCOPED_TRACE(golden.name + ", " + golden.source);
    compare(golden);
  }
}
