// An executor that the installed tool has generated, with stages that only add: every stage adds 1 to what
// passes through it, and the last one must see microbatch + stages.
#include "pipeline.h"

#include <sluice/Executor.h>

#include <atomic>
#include <cstdio>

using sluice::runtime::Context, sluice::runtime::Copy;

static std::atomic<unsigned> right{0};

struct AddingStage {
  using Boundary = unsigned;
  using Saved = unsigned;

  void load(const Context &c, unsigned &input) const { input = c.microbatch; }
  void forward(const Context &, const unsigned &input, unsigned &output, unsigned &) const {
    output = input + 1;
  }
  void loss(const Context &c, const unsigned &output, unsigned &gradient) const {
    right += output == c.microbatch + 4;
    gradient = 0;
  }
  void backward(const Context &, const unsigned &, unsigned &, unsigned &) const {}
  void reduce(const Context &) const {}
  void update(const Context &) const {}
};

int main() {
  sluice::runtime::Executor<AddingStage, pipeline::Schedule> executor(
      pipeline::schedule, [](const Copy &) { return std::make_unique<AddingStage>(); });
  executor.run(3);
  std::printf("%u of 24 microbatches passed all four stages\n", right.load());
  return right == 24 ? 0 : 1;
}
