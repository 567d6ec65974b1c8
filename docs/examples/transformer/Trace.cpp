#include "Trace.h"

#include "Training.h"

#include "one_f_one_b_pair.h"

#include <sluice/TraceObserver.h>

namespace transformer {

void writeTrace(const Setup &setup, const std::string &path) {
  using namespace sluice::runtime;
  using Stage = TransformerStage<double>;
  Setup own = setup;
  own.shape.width = 64, own.shape.hidden = 256, own.shape.length = 64; // ops of milliseconds
  const Text text(setup.textPath, own.shape);
  own.text = &text;
  own.stages = 2;
  own.firstSample = {0};
  for (unsigned m = 0; m < 8; ++m)
    own.firstSample.push_back(own.firstSample.back() + 2);
  const auto &schedule = one_f_one_b_pair::schedule;
  Executor<Stage, one_f_one_b_pair::Schedule, Threads<Matrix<double>>, TraceObserver> executor(
      schedule, StageMaker<double>(own, schedule), {.seed = own.seed}, {},
      TraceObserver({.firstStep = 2, .steps = 10})); // the first steps make their buffers
  executor.run(12);
  executor.observer().write(path);
}

} // namespace transformer
