#include "VerifyHarness.h"

#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::test;

namespace {

/// Megatron's interleaved order with groups of P; a last group below P may make it cyclic.
ScheduleBuilder interleaved(uint32_t devices, uint32_t microbatches, uint32_t chunks) {
  ScheduleBuilder b("interleaved", {chunks * devices, microbatches, devices});
  b.place([=](Stage s, Microbatch) { return s % devices; });
  b.program([=](DeviceProgram &p, Device d) {
    const uint32_t total = chunks * microbatches, group = devices * chunks;
    auto chunk = [=](uint32_t k) {
      return k % group / std::min(devices, microbatches - devices * (k / group));
    };
    std::vector<Microbatch> forwards(chunks * devices), backwards(chunks * devices);
    auto forward = [&](uint32_t k) {
      Stage s = chunk(k) * devices + d;
      p.forward(s, forwards[s]++);
    };
    auto backward = [&](uint32_t k) {
      Stage s = (chunks - 1 - chunk(k)) * devices + d;
      p.backward(s, backwards[s]++);
    };
    const uint32_t warmup = std::min(2 * (devices - 1 - d) + (chunks - 1) * devices, total);
    for (uint32_t k = 0; k < warmup; ++k)
      forward(k);
    for (uint32_t k = 0; k < total - warmup; ++k) {
      forward(k + warmup);
      backward(k);
    }
    for (uint32_t k = total - warmup; k < total; ++k)
      backward(k);
    p.reduce();
    p.update();
  });
  return b;
}

TEST(Order, CyclicOrderOfInterleavedGroups) {
  Checked checked = check(interleaved(4, 5, 3));
  ASSERT_EQ(checked.findings().size(), 1u) << checked.text();
  const Finding &finding = checked.findings()[0];
  EXPECT_EQ(finding.rule, Rule::CyclicOrder);
  EXPECT_EQ(finding.message,
            "the compute order is cyclic: forward(8, 4) stands before backward(8, 0) on device 0, "
            "and each needs the other; no channel model helps");
  EXPECT_EQ(finding.device, 0u);
  EXPECT_EQ(finding.op, "forward(8, 4)");
  EXPECT_EQ(finding.fix.message, "on device 0, move backward(8, 0) before forward(8, 4)");
  ASSERT_EQ(finding.notes.size(), 4u);
  EXPECT_EQ(finding.notes[0].message,
            "device 0 stands at forward(8, 4), which needs forward(7, 4) of device 3");
  EXPECT_EQ(finding.notes[1].message, "forward(7, 4) stands behind backward(7, 0) on device 3");
  EXPECT_EQ(finding.notes[2].message,
            "device 3 stands at backward(7, 0), which needs backward(8, 0) of device 0");
  EXPECT_EQ(finding.notes[3].message, "backward(8, 0) stands behind forward(8, 4) on device 0");
  EXPECT_FALSE(checked.verdict.complete);
}

TEST(Order, InterleavedGroupsAreMostlyAcyclic) {
  for (auto [devices, microbatches, chunks] :
       {std::tuple{4u, 8u, 2u}, {4u, 4u, 3u}, {2u, 3u, 2u}, {4u, 8u, 3u}})
    EXPECT_EQ(check(interleaved(devices, microbatches, chunks)).text(), "");
}

/// Two devices that each start with what the other makes last.
ScheduleBuilder crossed() {
  ScheduleBuilder b("crossed", {2, 2, 2});
  b.place([](Stage s, Microbatch m) { return s ^ m; });
  return b;
}

TEST(Order, LinesAndLowestDevice) {
  ScheduleBuilder b = crossed();
  unsigned line = __LINE__ + 2;
  b.program(0, [](DeviceProgram &p) {
    p.forward(1, 1);
    p.forward(0, 0);
    p.backward(1, 1);
    p.backward(0, 0);
  });
  b.program(1, [](DeviceProgram &p) {
    p.forward(1, 0);
    p.forward(0, 1);
    p.backward(1, 0);
    p.backward(0, 1);
  });
  Checked checked = check(b);
  EXPECT_EQ(checked.text(),
            fmt::format("302 at {}, device 0, forward(1, 1): the compute order is cyclic: forward(1, 1) "
                        "stands before forward(0, 0) on device 0, and each needs the other; no "
                        "channel model helps\n",
                        line));
  EXPECT_EQ(checked.fix(), "on device 0, move forward(0, 0) before forward(1, 1)");
}

TEST(Order, TwoCyclesTakeTwoMoves) {
  // Two independent pairs of devices, each crossed.
  ScheduleBuilder b("twice crossed", {2, 4, 4});
  b.place([](Stage s, Microbatch m) { return m / 2 * 2 + (s ^ (m % 2)); });
  b.program([](DeviceProgram &p, Device d) {
    const Microbatch own = d, other = d ^ 1;
    p.forward(1, other);
    p.forward(0, own);
    p.backward(1, other);
    p.backward(0, own);
  });
  Checked checked = check(b);
  ASSERT_EQ(checked.findings().size(), 1u);
  EXPECT_EQ(checked.fix(),
            "on device 0, move forward(0, 0) before forward(1, 1); then on device 2, move forward(0, 2) "
            "before forward(1, 3)");
}

TEST(Order, AnOpFarFromItsPlaceMovesOnce) {
  // 1F1B, but device 1 wants its first backward right after its first forward.
  const uint32_t devices = 8, microbatches = 12;
  ScheduleBuilder b = straight(devices, microbatches);
  b.program([=](DeviceProgram &p, Device d) {
    const Microbatch warmup = devices - 1 - d;
    for (Microbatch m = 0; m < warmup; ++m) {
      p.forward(d, m);
      if (d == 1 && m == 0)
        p.backward(d, 0);
    }
    for (Microbatch m = 0; m < microbatches; ++m) {
      if (m + warmup < microbatches)
        p.forward(d, m + warmup);
      if (d != 1 || m != 0)
        p.backward(d, m);
    }
    p.reduce();
    p.update();
  });
  Checked checked = check(b);
  ASSERT_EQ(checked.findings().size(), 1u) << checked.text();
  EXPECT_EQ(checked.findings()[0].op, "backward(1, 0)");
  // Device 2 makes its first backward behind its sixth forward, so the sixth of device 1 is the nearest
  // place.
  EXPECT_EQ(checked.fix(), "on device 1, move backward(1, 0) behind forward(1, 5)");
}

TEST(Order, OverlapMembersStartTogether) {
  // Device 1 stands between two stages of device 0, which wants to run them as one op.
  ScheduleBuilder b("sandwich", {3, 1, 2});
  b.place([](Stage s, Microbatch) { return s % 2; });
  b.program(0, [](DeviceProgram &p) {
    p.overlap([&] {
      p.forward(0, 0);
      p.forward(2, 0);
    });
    p.backward(2, 0);
    p.backward(0, 0);
  });
  b.program(1, [](DeviceProgram &p) {
    p.forward(1, 0);
    p.backward(1, 0);
  });
  Checked checked = check(b);
  ASSERT_EQ(checked.findings().size(), 1u) << checked.text();
  EXPECT_EQ(checked.findings()[0].message,
            "the compute order is cyclic: forward(2, 0) is in one overlap with "
            "forward(0, 0) on device 0, and each needs the other; no channel model "
            "helps");
}

TEST(Order, AMissingForwardIsNoCycle) {
  ScheduleBuilder b = straight(3, 2);
  b.program([](DeviceProgram &p, Device d) {
    for (Microbatch m = 0; m < 2; ++m)
      if (d != 0 || m != 1)
        p.forward(d, m);
    for (Microbatch m = 0; m < 2; ++m)
      p.backward(d, m);
  });
  Checked checked = check(b);
  ASSERT_EQ(checked.findings().size(), 1u) << checked.text();
  EXPECT_EQ(checked.findings()[0].rule, Rule::MissingForward);
}

/// Down over devices 0 and 1 for even microbatches, up for odd ones; both devices hold both stages.
ScheduleBuilder bidirectional(const std::function<void(DeviceProgram &, Device)> &ending) {
  ScheduleBuilder b = crossed();
  b.program([&](DeviceProgram &p, Device d) {
    p.forward(0, d);
    p.forward(1, 1 - d);
    p.backward(1, 1 - d);
    p.backward(0, d);
    ending(p, d);
  });
  return b;
}

TEST(Order, CollectivesInOneOrderAreClean) {
  EXPECT_EQ(check(bidirectional([](DeviceProgram &p, Device) {
              p.reduce();
              p.update();
            })).text(),
            "");
}

TEST(Order, CollectiveOrder) {
  unsigned line = 0;
  Checked checked = check(bidirectional([&](DeviceProgram &p, Device d) {
    line = __LINE__ + 1;
    p.reduce(d);
    p.reduce(1 - d);
    p.update();
  }));
  EXPECT_EQ(
      checked.text(),
      fmt::format("304 at {}, device 0, reduce(0): call 0 over devices 0, 1 is reduce(0) on device 0 and "
                  "reduce(1) on device 1\n",
                  line));
  EXPECT_FALSE(checked.verdict.complete);
}

TEST(Order, CollectiveMissing) {
  unsigned line = 0;
  Checked checked = check(bidirectional([&](DeviceProgram &p, Device d) {
    if (d == 0)
      p.reduce(0);
    line = __LINE__ + 1;
    p.reduce(1);
    if (d == 0)
      p.reduce(1);
    p.update();
  }));
  ASSERT_EQ(checked.findings().size(), 2u) << checked.text();
  EXPECT_EQ(checked.findings()[0].message,
            "reduce(0) over devices 0, 1 never starts: device 1 calls it never, others once");
  EXPECT_EQ(checked.findings()[0].fix.message, "add reduce(0) to device 1");
  EXPECT_EQ(checked.findings()[1].message,
            "reduce(1) over devices 0, 1 never starts: device 1 calls it once, others twice");
  EXPECT_EQ(checked.line(checked.findings()[1].span), line + 2);
}

TEST(Order, CycleThroughACollective) {
  // Device 0 reduces stage 0 before it makes what device 1 needs ahead of its own reduction.
  ScheduleBuilder b = crossed();
  b.program([](DeviceProgram &p, Device d) {
    p.forward(0, d);
    p.forward(1, 1 - d);
    if (d == 0) {
      p.reduce(0);
      p.backward(1, 1);
      p.backward(0, 0);
    } else {
      p.backward(1, 0);
      p.backward(0, 1);
      p.reduce(0);
    }
    p.reduce(1);
  });
  Checked checked = check(b);
  ASSERT_EQ(checked.findings().size(), 1u) << checked.text();
  EXPECT_EQ(checked.findings()[0].message,
            "the compute order is cyclic: reduce(0) stands before backward(1, 1) on "
            "device 0, and each needs the other; no channel model helps");
  EXPECT_EQ(checked.fix(), "on device 0, move backward(1, 1) before reduce(0)");
}

} // namespace
