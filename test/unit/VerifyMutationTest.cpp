// Legal schedules with one random change: whatever the slow interpreter trips over must give an error,
// and what it gets through must give none.
#include "VerifyHarness.h"
#include "VerifyInterpreter.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <random>

using namespace sluice;
using namespace sluice::test;

namespace {

using Random = std::mt19937;
using DevicePrograms = std::vector<std::vector<Op>>;

ScheduleBuilder gpipe(uint32_t devices, uint32_t microbatches, bool recompute = false) {
  ScheduleBuilder b = straight(devices, microbatches);
  b.program([=](DeviceProgram &p, Device d) {
    for (Microbatch m = 0; m < microbatches; ++m)
      p.forward(d, m, recompute ? Keep::Input : Keep::All);
    for (Microbatch m = microbatches; m-- > 0;) {
      if (recompute)
        p.recompute(d, m);
      p.backward(d, m);
    }
    p.reduce();
    p.update();
  });
  return b;
}

/// 1F1B; with `split`, ZB-H1: weight halves follow d microbatches later.
ScheduleBuilder oneFOneB(uint32_t devices, uint32_t microbatches, bool split = false) {
  ScheduleBuilder b = straight(devices, microbatches);
  b.program([=](DeviceProgram &p, Device d) {
    const Microbatch warmup = std::min(devices - 1 - d, microbatches);
    Microbatch weight = 0;
    for (Microbatch m = 0; m < warmup; ++m)
      p.forward(d, m);
    for (Microbatch m = 0; m < microbatches; ++m) {
      if (m + warmup < microbatches)
        p.forward(d, m + warmup);
      if (!split) {
        p.backward(d, m);
        continue;
      }
      p.backwardInput(d, m);
      if (m >= d)
        p.backwardWeight(d, weight++);
    }
    while (split && weight < microbatches)
      p.backwardWeight(d, weight++);
    p.reduce();
    p.update();
  });
  return b;
}

/// All forwards down, then up the V; backwards the same way back.
ScheduleBuilder foldedGpipe(uint32_t devices, uint32_t microbatches) {
  ScheduleBuilder b = folded(devices, microbatches);
  b.program([=](DeviceProgram &p, Device d) {
    const Stage up = 2 * devices - 1 - d;
    for (Stage s : {d, up})
      for (Microbatch m = 0; m < microbatches; ++m)
        p.forward(s, m);
    for (Stage s : {up, d})
      for (Microbatch m = 0; m < microbatches; ++m)
        p.backward(s, m);
    p.reduce();
    p.update();
  });
  return b;
}

/// Chimera's units: even microbatches go down the devices, odd ones up, one stage a slot.
ScheduleBuilder chimera(uint32_t devices, uint32_t microbatches) {
  ScheduleBuilder b("chimera", {devices, microbatches, devices});
  b.place([=](Stage s, Microbatch m) { return m % 2 == 0 ? s : devices - 1 - s; });
  b.program([=](DeviceProgram &p, Device d) {
    std::vector<std::pair<uint32_t, std::function<void()>>> slots;
    for (Microbatch m = 0; m < microbatches; ++m) {
      const Stage s = m % 2 == 0 ? d : devices - 1 - d;
      const uint32_t start = 2 * devices * (m / devices) + 2 * (m % devices / 2);
      slots.push_back({start + s, [&p, s, m] { p.forward(s, m); }});
      slots.push_back({start + 2 * devices - 1 - s, [&p, s, m] { p.backward(s, m); }});
    }
    std::stable_sort(slots.begin(), slots.end(), [](auto &a, auto &b) { return a.first < b.first; });
    for (auto &slot : slots)
      slot.second();
    p.reduce();
    p.update();
  });
  return b;
}

/// One change at a random place: neighbours swapped, an op dropped, repeated, given another microbatch,
/// or moved to another device.
void mutate(DevicePrograms &programs, uint32_t microbatches, Random &random) {
  auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
  std::vector<Op> &ops = programs[below(programs.size())];
  const size_t at = below(ops.size());
  switch (random() % 5) {
  case 0:
    if (at + 1 < ops.size())
      std::swap(ops[at], ops[at + 1]);
    break;
  case 1:
    ops.erase(ops.begin() + at);
    break;
  case 2: {
    const Op again = ops[at];
    ops.insert(ops.begin() + below(ops.size() + 1), again);
    break;
  }
  case 3:
    if (ops[at].hasMicrobatch())
      ops[at].microbatch = static_cast<uint32_t>(below(microbatches));
    break;
  default: {
    const Op moved = ops[at];
    ops.erase(ops.begin() + at);
    std::vector<Op> &other = programs[below(programs.size())];
    other.insert(other.begin() + below(other.size() + 1), moved);
  }
  }
}

Program assemble(Program program, const DevicePrograms &programs) {
  program.ops.clear();
  program.siteOf.clear();
  program.frameOf.clear();
  program.deviceBegin = {0};
  for (const std::vector<Op> &ops : programs) {
    program.ops.insert(program.ops.end(), ops.begin(), ops.end());
    program.deviceBegin.push_back(program.size());
  }
  return program;
}

std::string dump(const Program &program) {
  std::string text;
  for (uint32_t device = 0; device < program.devices; ++device) {
    text += fmt::format("\ndevice {}:", device);
    for (const Op &op : program.opsOf(device))
      text += " " + str(op);
  }
  return text;
}

/// Returns whether the program is legal; fails the test where interpreter and checker disagree.
bool agree(const Program &program, std::optional<int64_t> replicas) {
  CostModel costs = CostModel::ofTicks(program.stages);
  costs.replicas = replicas;
  Diagnostics diagnostics;
  Verdict verdict = verify(program, ProgramIndex(program), costs, diagnostics);
  const std::string accident = accidentIn(program, replicas);
  std::string findings;
  for (const Finding &finding : diagnostics.findings())
    findings += "\n" + finding.message;
  EXPECT_EQ(verdict.clean, accident.empty())
      << "interpreter: " << accident << "\nfindings:" << findings << dump(program);
  EXPECT_EQ(verdict.clean, !diagnostics.hasErrors());
  return accident.empty();
}

void mutateMany(const ScheduleBuilder &builder, unsigned seed, unsigned &legal, unsigned &illegal) {
  const Program base = builder.build();
  Random random(seed);
  for (std::optional<int64_t> replicas : {std::optional<int64_t>(), {1}, {2}}) {
    ASSERT_TRUE(agree(base, replicas)) << dump(base);
    for (unsigned i = 0; i < 150 && !::testing::Test::HasFailure(); ++i) {
      DevicePrograms programs;
      for (uint32_t device = 0; device < base.devices; ++device)
        programs.push_back(base.opsOf(device).vec());
      for (unsigned changes = 1 + random() % 2; changes > 0; --changes)
        mutate(programs, base.microbatches, random);
      ++(agree(assemble(base, programs), replicas) ? legal : illegal);
    }
  }
}

TEST(VerifyMutation, ErrorsExactlyWhereTheInterpreterTrips) {
  unsigned legal = 0, illegal = 0, seed = 1;
  for (uint32_t devices : {1, 2, 3, 4})
    for (uint32_t microbatches : {1, 2, 4, 7}) {
      mutateMany(gpipe(devices, microbatches), seed++, legal, illegal);
      mutateMany(gpipe(devices, microbatches, true), seed++, legal, illegal);
      mutateMany(oneFOneB(devices, microbatches), seed++, legal, illegal);
      mutateMany(oneFOneB(devices, microbatches, true), seed++, legal, illegal);
      mutateMany(foldedGpipe(devices, microbatches), seed++, legal, illegal);
      if (devices % 2 == 0 && microbatches % devices == 0)
        mutateMany(chimera(devices, microbatches), seed++, legal, illegal);
      if (HasFailure())
        return;
    }
  EXPECT_GT(legal, 4000u);
  EXPECT_GT(illegal, 20000u);
}

} // namespace
