// The embedded form: a schedule written in C++, checked, timed, printed and turned into an executor.
#include <sluice/sluice.h>

#include <algorithm>
#include <cstdio>

using namespace sluice;

static constexpr Sizes sizes{.stages = 4, .microbatches = 8, .devices = 4};

/// One forward, one backward. `forgetful`: device 1 leaves out the backward of microbatch 3.
static Program oneForwardOneBackward(SourceManager &sources, bool forgetful) {
  ScheduleBuilder builder("one_f_one_b", sizes);
  builder.place([](Stage s, Microbatch) { return Device(s); });
  builder.program([&](DeviceProgram &p, Device d) {
    Microbatch warmup = std::min(sizes.stages - 1 - d, sizes.microbatches);
    auto backward = [&](Microbatch m) {
      if (!forgetful || d != 1 || m != 3)
        p.backward(d, m);
    };
    for (Microbatch m = 0; m < warmup; ++m)
      p.forward(d, m);
    for (Microbatch m = 0; m + warmup < sizes.microbatches; ++m) {
      p.forward(d, m + warmup);
      backward(m);
    }
    for (Microbatch m = sizes.microbatches - warmup; m < sizes.microbatches; ++m)
      backward(m);
    p.reduce();
    p.update();
  });
  return builder.build(&sources);
}

static bool expect(bool holds, const char *what) {
  if (!holds)
    std::printf("FAIL: %s\n", what);
  return holds;
}

int main() {
  SourceManager sources;
  Diagnostics diagnostics;
  CostModel costs = CostModel::ofTicks(sizes.stages);
  Program program = oneForwardOneBackward(sources, false);
  ProgramIndex index(program);
  Verdict verdict = verify(program, index, costs, diagnostics, &sources);
  auto timeline = simulate(program, index, costs, diagnostics);
  if (!expect(verdict.clean && timeline && diagnostics.findings().empty(),
              "1F1B is clean and has a timeline"))
    return 1;
  auto figures = computeFigures(program, index, costs, *timeline, diagnostics);
  if (!expect(figures.has_value(), "1F1B has figures"))
    return 1;
  std::fputs(chart(program, costs, *timeline, *figures).c_str(), stdout);
  bool good =
      expect(figures->makespan == 33, "the makespan is 33 ticks") &&
      expect(figures->overheadRatio == Rational::make(3, 8), "the overhead ratio is 3/8") &&
      expect(figures->idleFraction == Rational::make(3, 11), "the idle fraction is 3/11") &&
      expect(figures->value("peak_activation", 0) == Rational(4), "device 0 keeps four activations") &&
      expect(!emitCpp(program, costs, {}).empty(), "there is an executor");

  Program broken = oneForwardOneBackward(sources, true);
  verify(broken, ProgramIndex(broken), costs, diagnostics, &sources);
  std::string text = findingsText(diagnostics.findings(), sources);
  std::fputs(text.c_str(), stdout);
  good = expect(diagnostics.hasErrors(), "a backward left out is an error") && good;
  good = expect(text.find("embedded.cpp") != std::string::npos, "the finding names this file") && good;
  return good ? 0 : 1;
}
