// `tighten`: the bubbles and peaks that the authors' own schedulers reach, and what it promises of any order.
#include "Passes/Tighten.h"
#include "Driver/Compilation.h"
#include "RandomSchedules.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

using namespace sluice;

namespace {

/// The only schedule of a text, with figures; a finding fails the test.
Instance compiled(const std::string &text) {
  SourceManager sources;
  FileLoader loader(sources);
  Compilation compilation(sources, loader);
  Diagnostics diagnostics;
  Instance result;
  if (compilation.load(*sources.addFile("test.sluice", text), diagnostics))
    compilation.run({}, {}, Compilation::Depth::Figures, diagnostics,
                    [&](Instance &instance) { result = std::move(instance); });
  for (const Finding &finding : diagnostics.findings())
    ADD_FAILURE() << finding.message << "\n" << text;
  return result;
}

std::string fileOf(const std::string &schedule, uint32_t stages, const std::string &call,
                   const std::string &costs) {
  return "import \"std/" + schedule + "\";\nmodel chunks { stages = " + std::to_string(stages) + "; " +
         costs + " }\nschedule main = " + call + ";\n";
}

/// Most pairs of stage and microbatch that a device holds at once, in program order.
uint32_t peakOf(const Program &program) {
  uint32_t peak = 0;
  for (uint32_t device = 0; device < program.devices; ++device) {
    uint32_t held = 0;
    for (const Op &op : program.opsOf(device)) {
      held += op.kind == OpKind::Forward;
      peak = std::max(peak, held);
      held -= op.kind == OpKind::Backward || op.kind == OpKind::BackwardWeight;
    }
  }
  return peak;
}

auto key(const Op &op) { return std::tuple(op.kind, op.flags, op.stage, op.microbatch); }

/// The same ops on every device, each kind of a stage in the same order but for weight halves.
void expectSameOps(const Program &before, const Program &after) {
  ASSERT_EQ(before.deviceBegin, after.deviceBegin);
  for (uint32_t device = 0; device < before.devices; ++device) {
    for (uint32_t stage = 0; stage < before.stages; ++stage)
      for (OpKind kind :
           {OpKind::Forward, OpKind::Backward, OpKind::BackwardInput, OpKind::Reduce, OpKind::Update}) {
        std::vector<uint32_t> microbatches[2];
        for (const Program *program : {&before, &after})
          for (const Op &op : program->opsOf(device))
            if (op.kind == kind && op.stage == stage)
              microbatches[program == &after].push_back(op.microbatch);
        EXPECT_EQ(microbatches[0], microbatches[1]) << "device " << device << ", stage " << stage;
      }
    std::vector<Op> ops[2] = {before.opsOf(device).vec(), after.opsOf(device).vec()};
    for (std::vector<Op> &each : ops)
      llvm::sort(each, [](const Op &a, const Op &b) { return key(a) < key(b); });
    EXPECT_EQ(ops[0], ops[1]) << "device " << device;
  }
}

/// Each op has brought its place in the source along.
void expectSameSources(const Program &before, const Program &after) {
  auto places = [](const Program &program) {
    std::vector<std::tuple<std::tuple<OpKind, uint8_t, uint16_t, uint32_t>, uint32_t, uint32_t>> result;
    for (OpId op = 0; op < program.size(); ++op)
      result.emplace_back(key(program.ops[op]), program.siteOf[op], program.frameOf[op]);
    llvm::sort(result);
    return result;
  };
  EXPECT_EQ(places(before), places(after));
}

struct Case {
  const char *schedule;
  uint32_t P, M;
  const char *overhead;       ///< Makespan less busy time where all ops take 1.
  const char *unevenOverhead; ///< Where an input half takes 1.2 and a weight half 0.8.
  uint32_t peak;
};

// What sail-sg/zero-bubble-pipeline-parallelism@39f2c186 prints.
constexpr Case cases[] = {
    {"v_half", 2, 4, "1", "1.8", 4},      {"v_half", 2, 6, "1", "1.8", 4},
    {"v_half", 3, 6, "5", "6.8", 4},      {"v_half", 3, 9, "5", "6.8", 4},
    {"v_half", 4, 8, "5", "7.8", 6},      {"v_half", 4, 12, "5", "7.8", 6},
    {"v_half", 5, 10, "11", "14.4", 6},   {"v_half", 5, 15, "11", "14.4", 6},
    {"v_half", 6, 12, "11", "15.4", 8},   {"v_half", 6, 18, "11", "15.4", 8},
    {"v_half", 7, 14, "17", "22", 8},     {"v_half", 7, 21, "17", "22", 8},
    {"v_half", 8, 16, "17", "23", 10},    {"v_half", 8, 24, "17", "23", 10},
    {"v_half", 9, 18, "23", "29.6", 10},  {"v_half", 9, 27, "23", "29.6", 10},
    {"v_half", 10, 20, "23", "30.6", 12}, {"v_half", 10, 30, "23", "30.6", 12},
    {"v_half", 12, 24, "29", "38.6", 14}, {"v_half", 12, 36, "29", "38.6", 14},
    {"v_half", 16, 32, "41", "53.6", 18}, {"v_half", 16, 48, "41", "53.6", 18},
    {"v_min", 2, 4, "3", "5.4", 4},       {"v_min", 2, 6, "3", "6.6", 4},
    {"v_min", 3, 6, "5", "11.6", 4},      {"v_min", 3, 9, "5", "15.2", 4},
    {"v_min", 4, 8, "11", "20.8", 4},     {"v_min", 4, 12, "11", "25.6", 4},
    {"v_min", 5, 10, "15", "27", 6},      {"v_min", 5, 15, "15", "33", 6},
    {"v_min", 6, 12, "17", "32", 6},      {"v_min", 6, 18, "17", "39.2", 6},
    {"v_min", 7, 14, "23", "41.2", 6},    {"v_min", 7, 21, "23", "49.6", 6},
    {"v_min", 8, 16, "27", "47.4", 8},    {"v_min", 8, 24, "27", "57", 8},
    {"v_min", 9, 18, "29", "52.4", 8},    {"v_min", 9, 27, "29", "63.2", 8},
    {"v_min", 10, 20, "35", "61.6", 8},   {"v_min", 10, 30, "35", "73.6", 8},
    {"v_min", 12, 24, "41", "72.8", 10},  {"v_min", 12, 36, "41", "87.2", 10},
    {"v_min", 16, 32, "59", "102.4", 12}, {"v_min", 16, 48, "59", "121.6", 12},
};

Rational parse(llvm::StringRef text) {
  auto [whole, tenths] = text.split('.');
  int64_t a = 0, b = 0;
  whole.getAsInteger(10, a);
  tenths.getAsInteger(10, b);
  return *Rational::make(10 * a + b, 10);
}

} // namespace

TEST(Tighten, ReachesTheBubblesOfItsAuthors) {
  for (const Case &c : cases) {
    const std::string call =
        std::string("tighten(") + c.schedule + "(" + std::to_string(c.P) + ", " + std::to_string(c.M) + "))";
    SCOPED_TRACE(call);
    for (auto [costs, overhead] :
         {std::pair("forward = 1; backward_input = 1; backward_weight = 1;", c.overhead),
          {"forward = 1; backward_input = 1.2; backward_weight = 0.8;", c.unevenOverhead}}) {
      Instance instance = compiled(fileOf(c.schedule, 2 * c.P, call, costs));
      ASSERT_TRUE(instance.figures);
      auto makespan = instance.figures->valueInBaseUnits("makespan"),
           busy = instance.figures->valueInBaseUnits("busy");
      EXPECT_EQ(subtract(*makespan, *busy)->str(), parse(overhead).str()) << costs;
      EXPECT_EQ(instance.figures->value("peak_activation")->num, c.peak);
    }
  }
}

TEST(Tighten, KeepsOpsAndPeaksOfBlocks) {
  for (const char *schedule : {"v_half", "v_min", "v_one_f_one_b"})
    for (uint32_t P : {2u, 3u, 4u, 5u, 7u})
      for (uint32_t M : {1u, 2u, 3u, 9u, 20u}) {
        const std::string block =
            std::string(schedule) + "(" + std::to_string(P) + ", " + std::to_string(M) + ")";
        SCOPED_TRACE(block);
        const std::string costs = "forward = 1; backward_input = 1; backward_weight = 1;";
        Instance before = compiled(fileOf(schedule, 2 * P, block, costs));
        Instance after = compiled(fileOf(schedule, 2 * P, "tighten(" + block + ")", costs));
        ASSERT_TRUE(before.figures && after.figures);
        expectSameOps(before.program, after.program);
        expectSameSources(before.program, after.program);
        EXPECT_LE(*after.figures->value("peak_activation"), *before.figures->value("peak_activation"));
        EXPECT_EQ(peakOf(after.program), after.figures->value("peak_activation")->num);
        Instance twice = compiled(fileOf(schedule, 2 * P, "tighten(tighten(" + block + "))", costs));
        ASSERT_TRUE(twice.figures);
        expectSameOps(before.program, twice.program);
        EXPECT_LE(peakOf(twice.program), peakOf(after.program));
      }
}

TEST(Tighten, KeepsRandomSchedulesLegal) {
  unsigned tightened = 0, moved = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    slow::RandomSchedule schedule = slow::randomSchedule(seed);
    const Program before = schedule.build();
    Tightened result = tighten(before, {});
    if (!result.program) {
      const Op &unsuited = before.ops[result.unsuited];
      EXPECT_TRUE(unsuited.flags != 0 || unsuited.kind > OpKind::BackwardWeight) << str(unsuited);
      continue;
    }
    ++tightened;
    SCOPED_TRACE(schedule.str());
    expectSameOps(before, *result.program);
    EXPECT_LE(peakOf(*result.program), peakOf(before));
    Diagnostics diagnostics, faults;
    const ProgramIndex index(*result.program);
    moved += !(result.program->ops == before.ops);
    const bool wasComplete = verify(before, ProgramIndex(before), schedule.costs, faults).complete;
    EXPECT_EQ(verify(*result.program, index, schedule.costs, diagnostics).complete, wasComplete);
    if (HasFailure())
      return;
  }
  EXPECT_GT(tightened, 50u);
  EXPECT_GT(moved, 20u);
}

TEST(Tighten, LeavesFaultySchedulesToTheChecks) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    slow::RandomSchedule schedule = slow::randomSchedule(seed);
    slow::Random random(seed);
    slow::mutate(schedule, random);
    const Program before = schedule.build();
    if (Tightened result = tighten(before, {}); result.program) {
      Diagnostics one, other;
      const bool wasComplete = verify(before, ProgramIndex(before), schedule.costs, one).complete;
      EXPECT_EQ(verify(*result.program, ProgramIndex(*result.program), schedule.costs, other).complete,
                wasComplete)
          << schedule.str();
      if (HasFailure())
        return;
    }
  }
}
