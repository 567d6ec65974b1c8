// The IR printed as a schedule in the language and read again is the same IR; and both fronts, the
// language and the C++ builder, make the same one.
#include "Driver/Compilation.h"
#include "IR/Builder.h"
#include "IR/Print.h"
#include "RandomDecorations.h"
#include "RandomSchedules.h"
#include "Std/LibraryText.h"

#include <gtest/gtest.h>

using namespace sluice;

namespace {

/// The programs of a source text, one for each schedule; a finding fails the test.
std::vector<Program> programsOf(const std::string &text, const Setting &setting = {}) {
  SourceManager sources;
  FileLoader loader(sources);
  Compilation compilation(sources, loader);
  Diagnostics diagnostics;
  std::vector<Program> programs;
  if (compilation.load(*sources.addFile("test.sluice", text), diagnostics))
    compilation.run(setting, {}, Compilation::Depth::Elaborate, diagnostics,
                    [&](Instance &instance) { programs.push_back(instance.program); });
  for (const Finding &finding : diagnostics.findings())
    ADD_FAILURE() << finding.message << "\n" << text;
  return programs;
}

void expectRoundTrip(const Program &program) {
  std::string text = printSluice(program);
  std::vector<Program> again = programsOf(text);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_TRUE(equal(program, again[0])) << text;
}

} // namespace

TEST(RoundTrip, RandomSchedules) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    Program program = slow::randomSchedule(seed).build();
    if (program.stagesOn(program.devices - 1).empty())
      continue; // a device that nothing names does not exist in the language
    program.name = "random";
    SCOPED_TRACE(seed);
    expectRoundTrip(program);
    if (HasFailure())
      return;
  }
}

TEST(RoundTrip, RandomSchedulesWithEverything) {
  unsigned withAll = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    Program plain = slow::randomSchedule(seed).build();
    if (plain.stagesOn(plain.devices - 1).empty())
      continue;
    Program program = test::decorated(plain, seed);
    program.name = "random";
    withAll +=
        !program.factors.empty() && !program.peers.empty() && !program.skips.empty() && !program.ties.empty();
    SCOPED_TRACE(seed);
    expectRoundTrip(program);
    if (HasFailure())
      return;
  }
  EXPECT_GT(withAll, 50u);
}

TEST(RoundTrip, Library) {
  for (const LibraryFile &file : libraryFiles())
    for (const Program &program : programsOf(file.text.str())) {
      SCOPED_TRACE(file.name.str());
      expectRoundTrip(program);
    }
}

TEST(RoundTrip, EqualNoticesEveryPart) {
  Program program = slow::randomSchedule(7).build();
  Program changed = program;
  changed.ops.back().stage ^= 1;
  EXPECT_FALSE(equal(program, changed));
  changed = program;
  changed.deviceBegin[1] += 1;
  EXPECT_FALSE(equal(program, changed));
  changed = program;
  changed.placement = StageTable<uint32_t>(std::vector<uint32_t>(program.stages, 9));
  EXPECT_FALSE(equal(program, changed));
  const std::vector<std::function<void(Program &)>> changes = {
      [](Program &p) { p.factors.push_back({0, 2}); },
      [](Program &p) { p.peers.push_back({0, 2}); },
      [](Program &p) { p.payloads.push_back({0, 2}); },
      [](Program &p) { p.skips.push_back({0, 2, true, {}}); },
      [](Program &p) { p.ties.push_back({"w", {0}, {}}); },
      [](Program &p) { p.isEvaluation = true; },
  };
  for (const auto &change : changes) {
    changed = program;
    change(changed);
    EXPECT_FALSE(equal(program, changed));
  }
}

TEST(Builder, MakesTheIrOfTheLanguage) {
  for (uint32_t P = 1; P <= 5; ++P)
    for (uint32_t M = 1; M <= 7; ++M) {
      ScheduleBuilder builder("zb_h1", {.stages = P, .microbatches = M, .devices = P});
      builder.place([](Stage s, Microbatch) { return Device(s); });
      builder.program([&](DeviceProgram &program, Device d) {
        uint32_t forwards = 0, weights = 0;
        auto forward = [&] {
          if (forwards < M)
            program.forward(d, forwards++);
        };
        for (uint32_t i = 0; i < P - 1 - d; ++i)
          forward();
        for (uint32_t i = 0; i < M; ++i) {
          forward();
          program.backwardInput(d, i);
          if (i >= d)
            program.backwardWeight(d, weights++);
        }
        while (weights < M)
          program.backwardWeight(d, weights++);
        program.reduce();
        program.update();
      });
      std::vector<Program> written =
          programsOf("import \"std/zb_h1\"; schedule main = zb_h1(P = " + std::to_string(P) +
                     ", M = " + std::to_string(M) + ");");
      ASSERT_EQ(written.size(), 1u);
      EXPECT_TRUE(equal(builder.build(), written[0])) << "P=" << P << " M=" << M;
    }
}

TEST(Builder, FindingsNameTheLineOfCpp) {
  ScheduleBuilder builder("twice", {.stages = 1, .microbatches = 1, .devices = 1});
  builder.place([](Stage, Microbatch) { return Device(0); });
  builder.program(0, [](DeviceProgram &program) {
    program.forward(0, 0);
    program.backward(0, 0);
    program.backward(0, 0);
  });
  SourceManager sources;
  Program program = builder.build(&sources);
  Diagnostics diagnostics;
  verify(program, ProgramIndex(program), CostModel::ofTicks(1), diagnostics, &sources);
  ASSERT_EQ(diagnostics.findings().size(), 1u);
  EXPECT_EQ(diagnostics.findings()[0].rule, Rule::DuplicateOp);
  Location place = sources.locate(diagnostics.findings()[0].span.begin);
  EXPECT_TRUE(place.file.ends_with("RoundTripTest.cpp"));
  EXPECT_GT(place.line, 100u);
}
