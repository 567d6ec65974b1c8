#include "VerifyHarness.h"

#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::test;

namespace {

TEST(Activations, MissingForward) {
  // Devices take fewer microbatches the further down they stand.
  ScheduleBuilder b("looped", {2, 4, 2});
  const unsigned placed = __LINE__ + 1;
  b.place([](Stage s, Microbatch) { return s; });
  b.program([](DeviceProgram &p, Device d) {
    for (Microbatch m = 0; m < 4 - d; ++m)
      p.forward(d, m);
    for (Microbatch m = 0; m < 4 - d; ++m)
      p.backward(d, m);
    p.reduce();
    p.update();
  });
  Checked checked = check(b);
  EXPECT_EQ(checked.text(),
            fmt::format("201 at {}, device 1, -: stage 1 never runs forward for microbatch 3\n", placed));
  EXPECT_EQ(checked.fix(), "add forward(1, 3) on device 1, or shorten `place`");
  EXPECT_FALSE(checked.verdict.complete);
  EXPECT_FALSE(checked.verdict.clean);
}

TEST(Activations, MissingForwardsOfSeveralStagesAreOneFinding) {
  ScheduleBuilder b = straight(3, 6);
  b.program([](DeviceProgram &p, Device d) {
    for (Microbatch m = 0; m < 6 - 2 * d; ++m)
      p.forward(d, m);
    for (Microbatch m = 0; m < 6 - 2 * d; ++m)
      p.backward(d, m);
  });
  Checked checked = check(b);
  ASSERT_EQ(checked.findings().size(), 1u);
  EXPECT_EQ(checked.findings()[0].message, "stage 1 never runs forward for microbatches 4, 5");
  EXPECT_NE(checked.notes().find("the same holds for stage 2 on device 2, microbatches 2 to 5"),
            std::string::npos)
      << checked.notes();
}

TEST(Activations, MissingWeightHalf) {
  ScheduleBuilder b = straight(2, 3);
  unsigned line = 0;
  b.program([&](DeviceProgram &p, Device d) {
    for (Microbatch m = 0; m < 3; ++m)
      p.forward(d, m);
    for (Microbatch m = 0; m < 3; ++m) {
      line = __LINE__ + 1;
      p.backwardInput(d, m);
      if (m >= 1 - d)
        p.backwardWeight(d, m - (1 - d));
    }
    p.reduce();
    p.update();
  });
  Checked checked = check(b);
  EXPECT_EQ(checked.text(),
            fmt::format("202 at {}, device 0, backward_weight(0, 2): backward_input(0, 2) has no "
                        "weight half: stage 0, microbatch 2\n",
                        line));
  EXPECT_EQ(checked.fix(), "add backward_weight(0, 2) behind it, or drain with `backward_weight(all)`");
}

TEST(Activations, MissingBackwardListsMicrobatches) {
  ScheduleBuilder b = straight(1, 8);
  b.program(0, [](DeviceProgram &p) {
    for (Microbatch m = 0; m < 8; ++m)
      p.forward(0, m);
    for (Microbatch m : {3, 4, 5, 7})
      p.backward(0, m);
  });
  Checked checked = check(b);
  ASSERT_EQ(checked.findings().size(), 1u);
  EXPECT_EQ(checked.findings()[0].message, "forward(0, 0) has no backward: stage 0, microbatches 0 to 2, 6");
  EXPECT_EQ(checked.findings()[0].op, "backward(0, 0)");
}

TEST(Activations, DuplicateOp) {
  ScheduleBuilder b = straight(2, 2);
  unsigned first = 0, second = 0;
  b.program([&](DeviceProgram &p, Device d) {
    p.forward(d, 0);
    p.forward(d, 1);
    p.backward(d, 0);
    first = __LINE__ + 1;
    p.backward(d, 1);
    if (d == 1) {
      second = __LINE__ + 1;
      p.backwardInput(1, 1);
      p.backwardWeight(1, 1);
    }
    p.reduce();
    p.update();
  });
  Checked checked = check(b);
  EXPECT_EQ(
      checked.text(),
      fmt::format(
          "203 at {}, device 1, backward_input(1, 1): backward_input(1, 1) has already run at line {}\n",
          second, first));
  EXPECT_EQ(checked.notes(), fmt::format("{}: backward(1, 1) stands here\n", first));
}

TEST(Activations, RecomputeOfAWholeActivationIsADuplicate) {
  ScheduleBuilder b = straight(1, 1);
  const unsigned line = __LINE__ + 2;
  b.program(0, [](DeviceProgram &p) {
    p.forward(0, 0);
    p.recompute(0, 0);
    p.backward(0, 0);
  });
  EXPECT_EQ(check(b).text(),
            fmt::format("203 at {}, device 0, recompute(0, 0): recompute(0, 0) has already run in "
                        "effect: forward(0, 0) keeps the whole activation at line {}\n",
                        line + 1, line));
}

TEST(Activations, MissingInput) {
  ScheduleBuilder b("chunks", {2, 2, 1});
  b.place([](Stage, Microbatch) { return 0; });
  const unsigned line = __LINE__ + 3;
  b.program(0, [](DeviceProgram &p) {
    for (Microbatch m = 0; m < 2; ++m) {
      p.forward(1, m);
      p.forward(0, m);
    }
    for (Microbatch m = 0; m < 2; ++m) {
      p.backward(1, m);
      p.backward(0, m);
    }
    p.reduce();
    p.update();
  });
  Checked checked = check(b);
  EXPECT_EQ(checked.text(),
            fmt::format("204 at {}, device 0, forward(1, 0): forward(1, 0) needs forward(0, 0), which "
                        "this device runs only at line {}\n",
                        line, line + 1));
  EXPECT_EQ(checked.fix(), "move forward(0, 0) before forward(1, 0)");
  EXPECT_EQ(
      checked.notes(),
      fmt::format("{}: forward(0, 0) stands only here\n0: the same holds for microbatch 1\n", line + 1));
}

TEST(Activations, MissingGradient) {
  ScheduleBuilder b = folded(2, 1);
  b.program(0, [](DeviceProgram &p) {
    p.forward(0, 0);
    p.forward(3, 0);
    p.backward(3, 0);
    p.backward(0, 0);
    p.reduce();
    p.update();
  });
  const unsigned line = __LINE__ + 4;
  b.program(1, [](DeviceProgram &p) {
    p.forward(1, 0);
    p.forward(2, 0);
    p.backward(1, 0);
    p.backward(2, 0);
    p.reduce();
    p.update();
  });
  Checked checked = check(b);
  EXPECT_EQ(checked.text(),
            fmt::format("205 at {}, device 1, backward(1, 0): backward(1, 0) needs the gradient of "
                        "backward(2, 0), which this device runs only at line {}\n",
                        line, line + 1));
}

/// The device of the cases below: three microbatches kept as input, on a line each.
struct Checkpointed {
  ScheduleBuilder b = straight(1, 3);
  unsigned forwards = 0;
  explicit Checkpointed(const std::function<void(DeviceProgram &)> &rest, Keep keep = Keep::Input) {
    b.program(0, [&](DeviceProgram &p) {
      forwards = __LINE__ + 2;
      for (Microbatch m = 0; m < 3; ++m)
        p.forward(0, m, keep);
      rest(p);
    });
  }
};

TEST(Activations, MissingActivationKeptAsInput) {
  const unsigned line = __LINE__ + 5;
  Checkpointed schedule([](DeviceProgram &p) {
    p.recompute(0, 0);
    p.backward(0, 0);
    p.recompute(0, 2);
    p.backward(0, 1);
    p.backward(0, 2);
  });
  Checked checked = check(schedule.b);
  EXPECT_EQ(checked.text(),
            fmt::format(
                "206 at {}, device 0, backward(0, 1): backward(0, 1) needs the saved activation of stage 0, "
                "microbatch 1, which is kept as input only since line {}\n",
                line, schedule.forwards));
  EXPECT_EQ(checked.fix(), "recompute(0, 1) before it");
  EXPECT_EQ(checked.notes(), fmt::format("{}: only the input is kept here\n", schedule.forwards));
}

TEST(Activations, MissingActivationDropped) {
  const unsigned line = __LINE__ + 3;
  Checkpointed schedule(
      [](DeviceProgram &p) {
        p.drop(0, 1);
        for (Microbatch m = 0; m < 3; ++m)
          p.backward(0, m);
      },
      Keep::All);
  Checked checked = check(schedule.b);
  ASSERT_EQ(checked.findings().size(), 1u);
  EXPECT_EQ(checked.findings()[0].message,
            fmt::format("backward(0, 1) needs the saved activation of stage 0, "
                        "microbatch 1, which is dropped since line {}",
                        line));
  EXPECT_EQ(checked.notes(), fmt::format("{}: it is dropped here\n", line));
  EXPECT_EQ(checked.fix(), "drop(0, 1) keep input, and recompute(0, 1) before it");
}

TEST(Activations, MissingActivationNotMadeYet) {
  ScheduleBuilder b = straight(1, 1);
  const unsigned line = __LINE__ + 2;
  b.program(0, [](DeviceProgram &p) {
    p.backward(0, 0);
    p.forward(0, 0);
  });
  Checked checked = check(b);
  EXPECT_EQ(checked.text(), fmt::format("206 at {}, device 0, backward(0, 0): backward(0, 0) needs the saved "
                                        "activation of stage 0, microbatch 0, which is not made yet\n",
                                        line));
  EXPECT_EQ(checked.notes(), fmt::format("{}: its forward stands only here\n", line + 1));
}

TEST(Activations, DropOfAUsedActivation) {
  ScheduleBuilder b = straight(1, 1);
  const unsigned line = __LINE__ + 3;
  b.program(0, [](DeviceProgram &p) {
    p.forward(0, 0);
    p.backward(0, 0);
    p.drop(0, 0);
  });
  EXPECT_EQ(check(b).text(),
            fmt::format("206 at {}, device 0, drop(0, 0): drop(0, 0) needs the saved activation of "
                        "stage 0, microbatch 0, which is used since line {}\n",
                        line + 1, line));
}

TEST(Activations, WeightHalfFirst) {
  ScheduleBuilder b = straight(1, 2);
  unsigned line = 0;
  b.program(0, [&](DeviceProgram &p) {
    p.forward(0, 0);
    p.forward(0, 1);
    p.backwardInput(0, 0);
    line = __LINE__ + 1;
    p.backwardWeight(0, 1);
    p.backwardInput(0, 1);
    p.backwardWeight(0, 0);
    p.reduce();
    p.update();
  });
  Checked checked = check(b);
  EXPECT_EQ(checked.text(),
            fmt::format("207 at {}, device 0, backward_weight(0, 1): backward_weight(0, 1) has no "
                        "input half of its own microbatch before it\n",
                        line));
  EXPECT_EQ(checked.notes(), fmt::format("{}: backward_input(0, 1) stands only here\n", line + 1));
}

TEST(Activations, RecomputeWithoutInput) {
  Checkpointed schedule(
      [](DeviceProgram &p) {
        for (Microbatch m = 0; m < 3; ++m) {
          p.recompute(0, m);
          p.backward(0, m);
        }
      },
      Keep::Nothing);
  Checked checked = check(schedule.b);
  ASSERT_EQ(checked.findings().size(), 1u);
  EXPECT_EQ(checked.findings()[0].rule, Rule::RecomputeWithoutInput);
  EXPECT_EQ(
      checked.findings()[0].message,
      fmt::format("recompute(0, 0) needs the kept input of forward(0, 0), which was not kept at line {}",
                  schedule.forwards));
  EXPECT_EQ(checked.fix(), "forward(0, 0) keep input");
}

TEST(Activations, RecomputeRandomIsAWarning) {
  CostModel costs = CostModel::ofTicks(1);
  costs.randomStage = {true};
  for (bool replay : {false, true}) {
    Checkpointed schedule([&](DeviceProgram &p) {
      for (Microbatch m = 0; m < 3; ++m) {
        p.recompute(0, m, replay);
        p.backward(0, m);
      }
      p.reduce();
      p.update();
    });
    Checked checked = check(schedule.b, &costs);
    EXPECT_TRUE(checked.verdict.complete && checked.verdict.clean);
    ASSERT_EQ(checked.findings().size(), replay ? 0u : 1u);
    if (replay)
      continue;
    EXPECT_EQ(checked.findings()[0].severity, Severity::Warning);
    EXPECT_EQ(checked.findings()[0].message, "recompute(0, 0) repeats random stage 0 with new random state");
    EXPECT_EQ(checked.fix(), "recompute(0, 0) replay");
    EXPECT_EQ(checked.notes(), "0: the same holds for microbatches 1, 2\n");
  }
}

TEST(Activations, OverlapDependsOnItself) {
  for (bool backwardFirst : {false, true}) {
    ScheduleBuilder b("fused", {2, 1, 1});
    b.place([](Stage, Microbatch) { return 0; });
    b.program(0, [&](DeviceProgram &p) {
      p.forward(0, 0);
      p.overlap([&] {
        if (backwardFirst)
          p.backward(1, 0);
        p.forward(1, 0);
        if (!backwardFirst)
          p.backward(1, 0);
      });
      p.backward(0, 0);
      p.reduce();
      p.update();
    });
    Checked checked = check(b);
    ASSERT_EQ(checked.findings().size(), 1u) << checked.text();
    EXPECT_EQ(checked.findings()[0].message,
              "backward(1, 0) needs what forward(1, 0) of the same overlap makes");
    EXPECT_EQ(checked.findings()[0].op, "backward(1, 0)");
    EXPECT_EQ(checked.fix(), "take backward(1, 0) out of the overlap and put it behind");
  }
}

TEST(Activations, OverlapOfUnrelatedOpsIsClean) {
  ScheduleBuilder b = straight(1, 2);
  b.program(0, [](DeviceProgram &p) {
    p.forward(0, 0);
    p.overlap([&] {
      p.forward(0, 1);
      p.backward(0, 0);
    });
    p.backward(0, 1);
  });
  EXPECT_EQ(check(b).text(), "");
}

TEST(Activations, InputHalvesOfTheFirstStageAreClean) {
  ScheduleBuilder b = straight(2, 1);
  b.program([](DeviceProgram &p, Device d) {
    p.forward(d, 0);
    p.backwardInput(d, 0);
    p.backwardWeight(d, 0);
    p.reduce();
    p.update();
  });
  EXPECT_EQ(check(b).text(), "");
}

TEST(Activations, DropKeepInputThenRecomputeIsClean) {
  ScheduleBuilder b = straight(1, 1);
  b.program(0, [](DeviceProgram &p) {
    p.forward(0, 0);
    p.drop(0, 0, true);
    p.recompute(0, 0);
    p.backwardInput(0, 0);
    p.backwardWeight(0, 0);
  });
  EXPECT_EQ(check(b).text(), "");
}

TEST(Activations, FindingsStandInSourceOrder) {
  ScheduleBuilder b = straight(1, 3);
  b.program(0, [](DeviceProgram &p) {
    p.forward(0, 0);
    p.forward(0, 0);
    p.backwardWeight(0, 0);
    p.backward(0, 1);
    p.forward(0, 1);
    p.forward(0, 2);
  });
  Checked checked = check(b);
  std::vector<unsigned> rules, lines;
  for (const Finding &finding : checked.findings()) {
    rules.push_back(info(finding.rule).number);
    lines.push_back(checked.line(finding.span));
  }
  EXPECT_EQ(rules, (std::vector<unsigned>{203, 206, 202}));
  EXPECT_TRUE(std::is_sorted(lines.begin(), lines.end()));
}

TEST(Activations, LinesAreNotNeeded) {
  ScheduleBuilder b = straight(1, 1);
  b.program(0, [](DeviceProgram &p) {
    p.forward(0, 0);
    p.backward(0, 0);
    p.backward(0, 0);
  });
  Program program = b.build();
  Diagnostics diagnostics;
  verify(program, ProgramIndex(program), CostModel::ofTicks(1), diagnostics);
  ASSERT_EQ(diagnostics.findings().size(), 1u);
  EXPECT_EQ(diagnostics.findings()[0].message, "backward(0, 0) has already run earlier");
}

} // namespace
