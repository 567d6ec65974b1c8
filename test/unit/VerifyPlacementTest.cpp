#include "VerifyHarness.h"

#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::test;

namespace {

TEST(Placement, WrongDeviceReportsTheCauseAlone) {
  // Stages 2 and 3 run as if looped, though they are placed folded.
  ScheduleBuilder b = folded(2, 2);
  unsigned line = 0;
  b.program([&](DeviceProgram &p, Device d) {
    for (Microbatch m = 0; m < 2; ++m)
      p.forward(d, m);
    line = __LINE__ + 2;
    for (Microbatch m = 0; m < 2; ++m)
      p.forward(2 + d, m);
    for (Microbatch m = 0; m < 2; ++m)
      p.backward(2 + d, m);
    for (Microbatch m = 0; m < 2; ++m)
      p.backward(d, m);
  });
  Checked checked = check(b);
  EXPECT_EQ(checked.text(),
            fmt::format("802 at {}, device 0, forward(2, 0): forward(2, 0) on device 0: stage 2 works "
                        "on device 1 for microbatch 0\n",
                        line));
  EXPECT_EQ(checked.fix(), "move it to device 1");
  EXPECT_EQ(checked.notes(), "0: the same holds for stage 3 on device 1, microbatch 0\n");
  EXPECT_FALSE(checked.verdict.complete);
}

TEST(Placement, WrongDeviceHoldsForUpdatesToo) {
  ScheduleBuilder b = straight(2, 1);
  unsigned line = 0;
  b.program([&](DeviceProgram &p, Device d) {
    p.forward(d, 0);
    p.backward(d, 0);
    line = __LINE__ + 1;
    p.update(1);
    if (d == 0)
      p.update(0);
  });
  EXPECT_EQ(check(b).text(),
            fmt::format("802 at {}, device 0, update(1): update(1) on device 0: stage 1 works on device 1\n",
                        line));
}

TEST(Placement, PlacedNowhere) {
  ScheduleBuilder b("gap", {2, 4, 2});
  const unsigned placed = __LINE__ + 1;
  b.place([](Stage s, Microbatch m) { return s == 1 && m > 0 ? noDevice : s; });
  b.program([](DeviceProgram &p, Device d) {
    for (Microbatch m = 0; m < 4; ++m)
      p.forward(d, m);
    for (Microbatch m = 0; m < 4; ++m)
      p.backward(d, m);
    p.reduce();
    p.update();
  });
  EXPECT_EQ(
      check(b).text(),
      fmt::format("801 at {}, device -, -: stage 1, microbatches 1 to 3 is placed on no device\n", placed));
}

TEST(Placement, WithoutAnyPlaceNothingElseIsSaid) {
  ScheduleBuilder b("nowhere", {2, 1, 1});
  b.program(0, [](DeviceProgram &p) { p.forward(0, 0); });
  Checked checked = check(b);
  ASSERT_EQ(checked.findings().size(), 1u);
  EXPECT_EQ(checked.findings()[0].rule, Rule::MisplacedStage);
  EXPECT_FALSE(checked.verdict.complete);
}

} // namespace
