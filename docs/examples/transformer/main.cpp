// Trains a small language model on a text with several generated executors and compares every gradient of
// every step with unpipelined training. Ends in one line, PASS or FAIL, and the exit code that belongs to it.
//
//   transformer [TEXT]                  all schedules
//   transformer TEXT --trace FILE       1F1B on two devices, its measured timeline written to a file
#include "Runs.h"
#include "Trace.h"
#include "Unpipelined.h"

#include <cstdio>

using namespace transformer;

int main(int argc, char **argv) try {
  constexpr unsigned long long steps = 12;
  Setup setup;
  setup.textPath = argc > 1 ? argv[1] : "alice.txt";
  const Text text(setup.textPath, setup.shape);
  setup.text = &text;
  setup.dropout = 0.1;
  setup.seed = 2024;
  if (argc > 3 && std::string(argv[2]) == "--trace") {
    writeTrace(setup, argv[3]);
    return 0;
  }
  std::printf(
      "%zu bytes of text, 16 sequences of %td a step, %u blocks, width %td, %td heads, dropout %.1f\n\n",
      text.size(), setup.shape.length, setup.shape.blocks, setup.shape.width, setup.shape.heads,
      setup.dropout);

  Setup few = setup;
  few.stages = 4;
  few.firstSample = {0, 1, 2};
  const double error = finiteDifferenceError(few);
  std::printf("unpipelined gradients against finite differences: %.1e\n\n", error);

  const char *heads = "schedule         replicas x devices  loss            difference  run to run\n";
  std::printf("double, %llu steps\n%s", steps, heads);
  bool passed = runAll<double>(setup, steps, 1e-12);
  std::printf("\nfloat, %llu steps\n%s", steps, heads);
  passed &= runAll<float>(setup, steps, 1e-5);
  if (error > 1e-8) {
    std::printf("  failed: unpipelined training computes a gradient\n");
    passed = false;
  }
  std::printf(
      "\ndifference: the largest of any gradient in any step from unpipelined training, relative to the\n"
      "largest gradient of its weight; at most 1e-12 in double and 1e-5 in float is demanded.\n\n%s\n",
      passed ? "PASS" : "FAIL");
  return passed ? 0 : 1;
} catch (const std::exception &error) {
  std::printf("FAIL: %s\n", error.what());
  return 1;
}
