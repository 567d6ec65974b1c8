#include "VerifyHarness.h"

#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::test;

namespace {

/// One device, one stage, four microbatches forward and backward, then `ending`.
Checked oneDevice(const std::function<void(DeviceProgram &)> &ending, std::optional<int64_t> replicas,
                  bool asynchronous = false, bool backwards = true) {
  ScheduleBuilder b = straight(1, 4);
  b.program(0, [&](DeviceProgram &p) {
    for (Microbatch m = 0; m < 4; ++m)
      p.forward(0, m);
    for (Microbatch m = 0; m < 4 && backwards; ++m)
      p.backward(0, m);
    ending(p);
  });
  CostModel costs = CostModel::ofTicks(1);
  costs.replicas = replicas;
  costs.asynchronous = asynchronous;
  return check(b, &costs);
}

TEST(Gradients, MissingReduce) {
  unsigned line = 0;
  auto updateOnly = [&](DeviceProgram &p) {
    line = __LINE__ + 1;
    p.update();
  };
  Checked checked = oneDevice(updateOnly, 4);
  EXPECT_EQ(checked.text(),
            fmt::format("501 at {}, device 0, update(0): update(0) reads gradients of 4 members that "
                        "nothing reduces\n",
                        line));
  EXPECT_EQ(checked.fix(), "reduce(0) behind backward(0, 3), the last contribution");
  EXPECT_TRUE(checked.verdict.complete);
  EXPECT_FALSE(checked.verdict.clean);
}

TEST(Gradients, OneReplicaNeedsNoReduction) {
  auto updateOnly = [](DeviceProgram &p) { p.update(); };
  EXPECT_EQ(oneDevice(updateOnly, 1).text(), "");
  EXPECT_EQ(oneDevice(updateOnly, std::nullopt).text(), "");
}

TEST(Gradients, UndeclaredReplicasNeedAReductionIfAnyDeviceReduces) {
  ScheduleBuilder b = straight(2, 1);
  b.program([](DeviceProgram &p, Device d) {
    p.forward(d, 0);
    p.backward(d, 0);
    if (d == 0)
      p.reduce();
    p.update();
  });
  Checked checked = check(b);
  ASSERT_EQ(checked.findings().size(), 1u);
  EXPECT_EQ(checked.findings()[0].message, "update(1) reads gradients of all replicas that nothing reduces");
}

TEST(Gradients, CopiesNeedAReductionWhateverTheReplicas) {
  ScheduleBuilder b("pair", {1, 2, 2});
  b.place([](Stage, Microbatch m) { return m; });
  b.program([](DeviceProgram &p, Device d) {
    p.forward(0, d);
    p.backward(0, d);
    p.update();
  });
  CostModel one = withReplicas(1, 1);
  Checked checked = check(b, &one);
  ASSERT_EQ(checked.findings().size(), 1u) << checked.text();
  EXPECT_EQ(checked.findings()[0].message, "update(0) reads gradients of 2 members that nothing reduces");
  EXPECT_EQ(checked.notes(), "0: the same holds for stage 0 on device 1\n");
}

TEST(Gradients, ReductionBehindTheUpdate) {
  unsigned line = 0;
  Checked checked = oneDevice(
      [&](DeviceProgram &p) {
        line = __LINE__ + 1;
        p.update();
        p.reduce();
      },
      2);
  EXPECT_EQ(checked.text(),
            fmt::format("501 at {}, device 0, update(0): update(0) reads gradients of 2 members that "
                        "only line {} reduces\n",
                        line, line + 1));
  EXPECT_EQ(checked.notes(), fmt::format("{}: reduce(0) stands behind the update\n", line + 1));
}

TEST(Gradients, ContributionAfterReduce) {
  // The reduction is armed by the last forward instead of the last backward.
  const uint32_t devices = 4, microbatches = 8;
  ScheduleBuilder b = straight(devices, microbatches);
  unsigned line = 0;
  b.program([&](DeviceProgram &p, Device d) {
    const Microbatch warmup = std::min(devices - 1 - d, microbatches), steady = microbatches - warmup;
    for (Microbatch m = 0; m < warmup; ++m)
      p.forward(d, m);
    for (Microbatch m = 0; m < steady; ++m) {
      p.forward(d, m + warmup);
      p.backward(d, m);
      line = __LINE__ + 2;
      if (m == steady - 1)
        p.reduce();
    }
    for (Microbatch m = steady; m < microbatches; ++m)
      p.backward(d, m);
    p.update();
  });
  CostModel two = withReplicas(devices, 2);
  Checked checked = check(b, &two);
  EXPECT_EQ(checked.text(),
            fmt::format("502 at {}, device 0, reduce(0): reduce(0) leaves out 3 contributions: "
                        "backward(0, 5 to 7)\n",
                        line));
  EXPECT_EQ(checked.fix(), "move it behind backward(0, 7), the last in program order");
  EXPECT_NE(checked.notes().find("the same holds for stage 2 on device 2"), std::string::npos);
  EXPECT_EQ(checked.notes().find("on device 3"), std::string::npos)
      << "its last forward is followed by nothing";

  CostModel one = withReplicas(devices, 1);
  EXPECT_EQ(check(b, &one).text(), "") << "over one member a reduction changes nothing";
}

TEST(Gradients, ContributionAfterReduceWithoutUpdate) {
  ScheduleBuilder b = straight(1, 2);
  b.program(0, [](DeviceProgram &p) {
    p.forward(0, 0);
    p.backward(0, 0);
    p.reduce();
    p.forward(0, 1);
    p.backward(0, 1);
  });
  Checked checked = check(b);
  ASSERT_EQ(checked.findings().size(), 1u);
  EXPECT_EQ(checked.findings()[0].message, "reduce(0) leaves out 1 contribution: backward(0, 1)");
}

TEST(Gradients, ReversedBackwardsWithReductionAfterTheLastAreClean) {
  ScheduleBuilder b = straight(2, 4);
  b.program([](DeviceProgram &p, Device d) {
    for (Microbatch m = 0; m < 4; ++m)
      p.forward(d, m);
    for (Microbatch m = 4; m-- > 0;) {
      p.backward(d, m);
      if (m == 0)
        p.reduce();
    }
    p.update();
  });
  CostModel two = withReplicas(2, 2);
  EXPECT_EQ(check(b, &two).text(), "");
}

TEST(Gradients, ReducedTwice) {
  unsigned line = 0;
  auto twice = [&](DeviceProgram &p) {
    line = __LINE__ + 1;
    p.reduce(0);
    p.reduce();
    p.update();
  };
  Checked checked = oneDevice(twice, 2);
  EXPECT_EQ(checked.text(),
            fmt::format("503 at {}, device 0, reduce(0): reduce(0) adds again what reduce(0) at line {} "
                        "has added: factor 2\n",
                        line + 1, line));
  EXPECT_EQ(checked.fix(), "keep only the last of the two");
  EXPECT_EQ(
      oneDevice(twice, std::nullopt).findings().at(0).message,
      fmt::format("reduce(0) adds again what reduce(0) at line {} has added: factor the number of replicas",
                  line));
  EXPECT_EQ(oneDevice(twice, 1).text(), "");
}

TEST(Gradients, MissingUpdate) {
  ScheduleBuilder b("folded", {4, 2, 2});
  const unsigned placed = __LINE__ + 1;
  b.place([](Stage s, Microbatch) { return s < 2 ? s : 3 - s; });
  b.program([](DeviceProgram &p, Device d) {
    const Stage up = 3 - d;
    for (Stage s : {d, up})
      for (Microbatch m = 0; m < 2; ++m)
        p.forward(s, m);
    for (Stage s : {up, d})
      for (Microbatch m = 0; m < 2; ++m)
        p.backward(s, m);
    p.reduce();
    p.update(d);
    if (d == 0)
      p.update(up);
  });
  Checked checked = check(b);
  EXPECT_EQ(checked.text(),
            fmt::format("505 at {}, device 1, -: stage 2 has 2 contributions that no update applies, "
                        "though stages 0, 1, 3 update\n",
                        placed));
  EXPECT_EQ(checked.fix(), "update(2) behind backward(2, 1) on device 1");
}

TEST(Gradients, ComputeOrdersNeedNoUpdate) {
  EXPECT_EQ(oneDevice([](DeviceProgram &) {}, 4).text(), "");
  EXPECT_EQ(oneDevice([](DeviceProgram &p) { p.reduce(); }, 4).text(), "");
}

TEST(Gradients, UpdateBeforeContribution) {
  ScheduleBuilder b = straight(2, 3);
  unsigned line = 0;
  b.program([&](DeviceProgram &p, Device d) {
    for (Microbatch m = 0; m < 3; ++m)
      p.forward(d, m);
    for (Microbatch m = 0; m < 3; ++m) {
      p.backwardInput(d, m);
      if (m > 0)
        p.backwardWeight(d, m - 1);
    }
    if (d > 0)
      p.backwardWeight(d, 2);
    line = __LINE__ + 2;
    p.reduce();
    p.update();
    if (d == 0)
      p.backwardWeight(d, 2);
  });
  Checked checked = check(b);
  EXPECT_EQ(checked.text(),
            fmt::format("506 at {}, device 0, update(0): update(0) comes before 1 contribution of its "
                        "step: backward_weight(0, 2)\n",
                        line));
  EXPECT_EQ(checked.fix(),
            "move it behind backward_weight(0, 2), or declare `semantics = asynchronous(staleness <= k)`");
}

TEST(Gradients, UpdatesAtEachBackwardAreAsynchronous) {
  for (bool asynchronous : {true, false}) {
    ScheduleBuilder b = straight(2, 4);
    b.program([](DeviceProgram &p, Device d) {
      for (Microbatch m = 0; m < 4; ++m) {
        p.forward(d, m);
        p.backward(d, m);
        p.update();
      }
    });
    CostModel costs = CostModel::ofTicks(2);
    costs.asynchronous = asynchronous;
    Checked checked = check(b, &costs);
    ASSERT_EQ(checked.findings().size(), asynchronous ? 0u : 1u);
    if (!asynchronous) {
      EXPECT_EQ(checked.findings()[0].message,
                "update(0) comes before 3 contributions of its step: backward(0, 1 to 3)");
    }
  }
}

TEST(Gradients, AsynchronousLeftovers) {
  ScheduleBuilder b = straight(1, 2);
  b.program(0, [](DeviceProgram &p) {
    p.forward(0, 0);
    p.backward(0, 0);
    p.update();
    p.forward(0, 1);
    p.backward(0, 1);
  });
  CostModel costs = CostModel::ofTicks(1);
  costs.asynchronous = true;
  Checked checked = check(b, &costs);
  ASSERT_EQ(checked.findings().size(), 1u);
  EXPECT_EQ(checked.findings()[0].message, "stage 0 has 1 contribution that no update applies behind them");
}

TEST(Gradients, EmptyUpdate) {
  unsigned line = 0;
  Checked checked = oneDevice(
      [&](DeviceProgram &p) {
        line = __LINE__ + 1;
        p.update();
        p.update();
      },
      1);
  EXPECT_EQ(checked.text(),
            fmt::format("514 at {}, device 0, update(0): update(0) finds no contribution: update(0) at "
                        "line {} used them\n",
                        line + 1, line));
  EXPECT_EQ(checked.fix(), "delete it");
}

TEST(Gradients, AnUpdateBeforeEverythingShouldMove) {
  ScheduleBuilder b = straight(1, 1);
  b.program(0, [](DeviceProgram &p) {
    p.forward(0, 0);
    p.update();
    p.backward(0, 0);
  });
  Checked checked = check(b);
  ASSERT_EQ(checked.findings().size(), 1u) << checked.text();
  EXPECT_EQ(checked.findings()[0].message, "update(0) finds no contribution: none was made before it");
  EXPECT_EQ(checked.fix(), "move it behind backward(0, 0), the last contribution");
}

TEST(Gradients, ZeroIsNoFinding) {
  ScheduleBuilder b = straight(2, 2);
  b.program([](DeviceProgram &p, Device d) {
    p.zero();
    for (Microbatch m = 0; m < 2; ++m)
      p.forward(d, m);
    for (Microbatch m = 0; m < 2; ++m)
      p.backward(d, m);
    p.reduce();
    p.update();
  });
  EXPECT_EQ(check(b).text(), "");
}

TEST(Gradients, ConsequencesOfAMissingBackwardAreNotReported) {
  // No backward at all: the update finds nothing, but that is not the cause.
  Checked checked = oneDevice([](DeviceProgram &p) { p.reduce(), p.update(); }, 2, false, false);
  ASSERT_EQ(checked.findings().size(), 1u);
  EXPECT_EQ(checked.findings()[0].message, "forward(0, 0) has no backward: stage 0, microbatches 0 to 3");
}

} // namespace
