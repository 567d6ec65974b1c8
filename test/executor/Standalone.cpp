// A program that brings the runtime along: an activation is its microbatch's number, and each stage adds up
// those that come back. Prints the sum of a step, which is the same on each stage.
#include "one_f_one_b.h"

#include <sluice/Executor.h>

#include <cstdio>
#include <memory>

using sluice::runtime::Context;

struct SummingStage {
  using Boundary = unsigned;
  using Saved = unsigned;
  unsigned sum = 0;

  void load(const Context &c, unsigned &input) { input = c.microbatch; }
  void forward(const Context &, const unsigned &input, unsigned &output, unsigned &saved) {
    output = saved = input;
  }
  void loss(const Context &, const unsigned &output, unsigned &gradient) { gradient = output; }
  void backward(const Context &, const unsigned &gradient, unsigned &saved, unsigned &inputGradient) {
    sum += gradient == saved ? gradient : 1'000'000;
    inputGradient = gradient;
  }
  void reduce(const Context &) {}
  void update(const Context &) {}
};

int main() {
  sluice::runtime::Executor<SummingStage, one_f_one_b::Schedule> executor(
      one_f_one_b::schedule, [](const sluice::runtime::Copy &) { return std::make_unique<SummingStage>(); });
  executor.run();
  for (unsigned stage = 1; stage < 3; ++stage)
    if (executor.stage(stage).sum != executor.stage(0).sum)
      return 1;
  std::printf("one_f_one_b: sums %u\n", executor.stage(0).sum);
}
