// The theory in numbers: with equal costs and nothing else that takes time the library's GPipe, 1F1B and
// eager 1F1B have exactly the closed forms, for every P and M; with anything else no closed form is stated,
// the assumption that fails is named, and the timeline still keeps every dependency, which an independent
// walk over all edges asserts.
#include "GoldenLibrary.h"
#include "Timeline/Figures.h"
#include "Timeline/Transfers.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>
#include <tuple>

using namespace sluice;
using golden::compile;
using golden::importsOf;

namespace {

constexpr uint32_t mostDevices = 9, mostMicrobatches = 24;

Program library(const std::string &schedule, uint32_t devices, uint32_t microbatches) {
  const std::string call = fmt::format("{}({}, {})", schedule, devices, microbatches);
  golden::Compiled compiled =
      compile(importsOf(call) + "schedule main = " + call + ";\n", Compilation::Depth::Elaborate);
  EXPECT_TRUE(compiled.program && !compiled.hasErrors()) << compiled.text;
  return std::move(*compiled.program);
}

/// Runs on any costs.
struct Timed {
  ProgramIndex index;
  Timeline timeline;
  sluice::Figures figures;

  Timed(const Program &program, const CostModel &costs) : index(program) {
    Diagnostics diagnostics;
    timeline = simulate(program, index, costs, diagnostics).value();
    figures = computeFigures(program, index, costs, timeline, diagnostics).value();
  }
};

CostModel equalCosts(uint32_t stages, int64_t forward, int64_t backward) {
  CostModel costs = CostModel::ofTicks(stages, forward, 0, 0);
  costs.backward = StageTable<int64_t>(std::vector<int64_t>(stages, backward));
  costs.isDefault = false;
  return costs;
}

/// One link from each device to the next and back; `lanes`: a fifo lane for each, else nothing is shared.
void addLinks(CostModel &costs, uint32_t devices, int64_t latency, int64_t service, bool lanes) {
  costs.links = {{"link", lanes ? Sharing::Fifo : Sharing::No, {}}};
  std::vector<int64_t> outputs(devices, 0), gradients(devices, 0);
  std::vector<uint32_t> forth(devices, noRoute), back(devices, noRoute);
  for (uint32_t s = 0; s + 1 < devices; ++s) {
    outputs[s] = gradients[s + 1] = latency + service;
    for (auto *route : {&forth[s], &back[s + 1]}) {
      *route = static_cast<uint32_t>(costs.routes.size());
      costs.routes.push_back({0, lanes ? *route : noLane, latency});
    }
  }
  costs.laneCount = lanes ? static_cast<uint32_t>(costs.routes.size()) : 0;
  costs.activationTransfer = StageTable<int64_t>(outputs);
  costs.gradientTransfer = StageTable<int64_t>(gradients);
  costs.activationRoute = StageTable<uint32_t>(forth);
  costs.gradientRoute = StageTable<uint32_t>(back);
}

/// Every op of one stage a device in program order after the op before, after its inputs and their transfers,
/// and for as long as it takes; every message after what makes it, and one after the other on its lane.
void expectDependencies(const Program &program, const CostModel &costs, const Timed &run) {
  std::map<std::tuple<OpKind, uint32_t, uint32_t>, int64_t> ends;
  for (OpId id = 0; id < program.size(); ++id) {
    const Op &op = program.ops[id];
    ends[{op.kind, op.stage, op.microbatch}] = run.timeline.end[id];
  }
  int64_t last = 0;
  for (uint32_t d = 0; d < program.devices; ++d) {
    int64_t free = 0;
    for (OpId id = program.deviceBegin[d]; id < program.deviceBegin[d + 1]; ++id) {
      const Op &op = program.ops[id];
      const int64_t start = run.timeline.start(program, costs, id), end = run.timeline.end[id];
      ASSERT_GE(start, free) << str(op);
      free = end;
      last = std::max(last, end);
      if (op.kind == OpKind::Update) {
        ASSERT_EQ(end - start, costs.update.empty() ? 0 : costs.update[op.stage]);
      }
      if (op.kind != OpKind::Forward && op.kind != OpKind::Backward)
        continue;
      const uint32_t s = op.stage, m = op.microbatch;
      const bool isForward = op.kind == OpKind::Forward;
      ASSERT_EQ(end - start, (isForward ? costs.forward : costs.backward).at(s, m)) << str(op);
      if (isForward && s > 0) {
        ASSERT_GE(start, ends.at({OpKind::Forward, s - 1, m}) + costs.activationTransfer.at(s - 1, m));
      }
      if (!isForward) {
        ASSERT_GE(start, ends.at({OpKind::Forward, s, m}));
      }
      if (!isForward && s + 1 < program.stages) {
        ASSERT_GE(start, ends.at({OpKind::Backward, s + 1, m}) + costs.gradientTransfer.at(s + 1, m));
      }
    }
  }
  EXPECT_EQ(last, run.timeline.makespan);
  std::map<uint32_t, std::vector<std::pair<int64_t, int64_t>>> lanes; // begin and end of each service
  forEachTransfer(program, run.index, costs, run.timeline, [&](const Transfer &transfer) {
    EXPECT_GE(transfer.ready, run.timeline.end[transfer.from]);
    EXPECT_GE(transfer.begin, transfer.ready);
    EXPECT_LE(transfer.end, run.timeline.start(program, costs, transfer.to));
    const Op &op = program.ops[transfer.from];
    const auto &routes = transfer.isGradient ? costs.gradientRoute : costs.activationRoute;
    if (routes.empty())
      return;
    const Route &route = costs.routes[routes.at(op.stage, op.microbatch)];
    if (route.lane != noLane)
      lanes[route.lane].emplace_back(transfer.begin, transfer.end - route.latency);
  });
  for (auto &[lane, services] : lanes) {
    std::sort(services.begin(), services.end());
    for (size_t i = 1; i < services.size(); ++i)
      ASSERT_GE(services[i].first, services[i - 1].second) << "lane " << lane;
  }
}

std::string failedOf(const ClosedForms &closed) {
  std::string text;
  for (const FailedAssumption &failed : closed.failed)
    text += failed.message + "\n";
  return text;
}

/// No closed form, since of all assumptions this one fails.
void expectDeclined(const Timed &run, const std::string &reason) {
  EXPECT_FALSE(run.figures.closed.overheadRatio || run.figures.closed.idleFraction);
  ASSERT_EQ(run.figures.closed.failed.size(), 1u) << failedOf(run.figures.closed);
  EXPECT_NE(run.figures.closed.failed[0].message.find(reason), std::string::npos)
      << failedOf(run.figures.closed);
}

/// Each schedule at every P and M.
template <typename Visit> void forEachSchedule(Visit visit) {
  for (const char *schedule : {"gpipe", "gpipe_reversed", "one_f_one_b", "eager_one_f_one_b"})
    for (uint32_t P = 1; P <= mostDevices; ++P)
      for (uint32_t M = 1; M <= mostMicrobatches; ++M) {
        SCOPED_TRACE(fmt::format("{}({}, {})", schedule, P, M));
        visit(library(schedule, P, M), P, M);
        if (testing::Test::HasFailure())
          return;
      }
}

} // namespace

TEST(Theory, ClosedFormsAreExactForEveryPAndM) {
  forEachSchedule([](const Program &program, uint32_t P, uint32_t M) {
    for (auto [forward, backward] : {std::pair{1, 1}, {1, 2}, {3, 5}, {7, 2}}) {
      const CostModel costs = equalCosts(P, forward, backward);
      const Timed run(program, costs);
      const Rational overhead = Rational::make(P - 1, M).value();
      const Rational idle = Rational::make(P - 1, M + P - 1).value();
      EXPECT_EQ(run.figures.makespan, int64_t(M + P - 1) * (forward + backward));
      EXPECT_TRUE(run.figures.overheadRatio == overhead && run.figures.closed.overheadRatio == overhead);
      EXPECT_TRUE(run.figures.idleFraction == idle && run.figures.closed.idleFraction == idle);
      EXPECT_EQ(failedOf(run.figures.closed), "");
      expectDependencies(program, costs, run);
    }
  });
}

// All forwards first: every microbatch is alive at once, on every device.
TEST(Theory, AllForwardsKeepEveryMicrobatch) {
  for (uint32_t P = 1; P <= mostDevices; ++P)
    for (uint32_t M = 1; M <= mostMicrobatches; ++M) {
      const Timed run(library("gpipe", P, M), equalCosts(P, 1, 2));
      for (uint32_t d = 0; d < P; ++d)
        ASSERT_EQ(run.figures.value("peak_activation", d), Rational(M)) << P << " " << M << " " << d;
    }
}

TEST(Theory, OneSlowStage) {
  forEachSchedule([](const Program &program, uint32_t P, uint32_t M) {
    if (P == 1)
      return;
    const uint32_t slow = M % P;
    CostModel costs = equalCosts(P, 3, 5);
    std::vector<int64_t> forward(P, 3);
    forward[slow] = 4;
    costs.forward = StageTable<int64_t>(forward);
    const Timed run(program, costs);
    expectDeclined(run, fmt::format("stage {} has forward 4", slow == 0 ? 1 : slow).substr(0, 20));
    EXPECT_GE(run.figures.makespan, int64_t(slow) * 8 + int64_t(M) * 9); // its fill, its work, its drain
    expectDependencies(program, costs, run);
  });
}

TEST(Theory, ExposedTransfers) {
  forEachSchedule([](const Program &program, uint32_t P, uint32_t M) {
    if (P == 1)
      return;
    CostModel costs = equalCosts(P, 3, 5);
    addLinks(costs, P, 2, 0, false);
    const Timed run(program, costs);
    expectDeclined(run, "transfer");
    EXPECT_GE(run.figures.makespan, int64_t(M + P - 1) * 8 + 2 * 2 * int64_t(P - 1));
    EXPECT_EQ(run.figures.transferExposed, run.figures.makespan - int64_t(M + P - 1) * 8);
    expectDependencies(program, costs, run);
  });
}

TEST(Theory, SharedLanes) {
  forEachSchedule([](const Program &program, uint32_t P, uint32_t M) {
    if (P == 1)
      return;
    CostModel costs = equalCosts(P, 3, 5), apart = costs;
    addLinks(costs, P, 1, 4, true);
    addLinks(apart, P, 1, 4, false);
    const Timed run(program, costs), alone(program, apart);
    expectDeclined(run, "transfer");
    EXPECT_GE(run.figures.makespan, alone.figures.makespan);
    if (M > 1 && program.name.find("gpipe") != std::string::npos) { // forwards come faster than they are sent
      EXPECT_GT(run.figures.makespan, alone.figures.makespan);
    }
    expectDependencies(program, costs, run);
  });
}

TEST(Theory, UpdatesThatTakeTime) {
  forEachSchedule([](const Program &program, uint32_t P, uint32_t M) {
    CostModel costs = equalCosts(P, 3, 5);
    costs.update.assign(P, 2);
    const Timed run(program, costs);
    expectDeclined(run, "update");
    EXPECT_EQ(run.figures.makespan, int64_t(M + P - 1) * 8 + 2);
    expectDependencies(program, costs, run);
  });
}
