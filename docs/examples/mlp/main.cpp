// Trains one perceptron with several generated executors and compares every gradient of every step with
// full-batch training. Ends in one line, PASS or FAIL, and the exit code that belongs to it.
#include "FullBatch.h"

#include <sluice/Executor.h>

#include "gpipe.h"
#include "one_f_one_b.h"
#include "recomputing.h"
#include "uneven.h"

#include <cstdio>

using namespace mlp;
using sluice::runtime::Copy;
using sluice::runtime::Executor;

static constexpr uint64_t seed = 2024, steps = 100;
static constexpr double tolerance = 1e-12;

/// Largest difference of a gradient, relative to the largest gradient of its stage.
static double relativeDifference(const Matrix &found, const Matrix &wanted) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < wanted.values.size(); ++i) {
    difference = std::max(difference, std::abs(found.values[i] - wanted.values[i]));
    size = std::max(size, std::abs(wanted.values[i]));
  }
  return difference / size;
}

/// Central differences over some weights of every stage: is what full-batch training computes a gradient?
static double finiteDifferenceError(const Setup &setup) {
  FullBatch training(setup, seed);
  training.computeGradients(0);
  const std::vector<Layer> exact = training.layers;
  double worst = 0;
  for (unsigned stage = 0; stage < stageCount; ++stage)
    for (std::size_t i = 0; i < exact[stage].weights.values.size(); i += 7) {
      const double h = 1e-5;
      double &weight = training.layers[stage].weights.values[i];
      weight += h;
      const double above = training.computeGradients(0);
      weight -= 2 * h;
      const double below = training.computeGradients(0);
      weight += h;
      worst = std::max(worst, std::abs((above - below) / (2 * h) - exact[stage].gradient.values[i]));
    }
  return worst;
}

static double accuracy(const Setup &setup, const std::vector<Layer> &layers) {
  Matrix value = setup.data->features;
  for (const Layer &layer : layers) {
    Matrix output;
    LayerState state;
    layer.forward(value, output, state);
    value = std::move(output);
  }
  std::size_t right = 0;
  for (std::size_t r = 0; r < value.rows; ++r) {
    const auto row = value.values.begin() + static_cast<std::ptrdiff_t>(r * value.columns);
    right += std::max_element(row, row + static_cast<std::ptrdiff_t>(value.columns)) - row ==
             static_cast<std::ptrdiff_t>(setup.data->classes[r]);
  }
  return static_cast<double>(right) / static_cast<double>(value.rows);
}

/// Rows of each microbatch, from what its loss counts in that of the step.
static std::vector<std::size_t> firstRows(const sluice::runtime::Tables &schedule, std::size_t batch) {
  std::vector<std::size_t> rows = {0};
  for (double factor : schedule.lossFactor)
    rows.push_back(rows.back() + static_cast<std::size_t>(std::lround(factor * static_cast<double>(batch))));
  return rows;
}

struct Outcome {
  double firstLoss = 0, lastLoss = 0, accuracy = 0, difference = 0;
  uint64_t hash = 0;
};

template <class Schedule>
static Outcome train(const Schedule &schedule, const Setup &setup,
                     Normalise normalise = Normalise::WholeBatch) {
  Executor<MlpStage, Schedule> executor(
      schedule, [&](const Copy &copy) { return std::make_unique<MlpStage>(setup, copy.stage); },
      {.seed = seed});
  FullBatch reference(setup, seed, normalise);
  Outcome outcome;
  for (uint64_t step = 0; step < steps; ++step) {
    executor.run();
    reference.computeGradients(step);
    for (unsigned stage = 0; stage < stageCount; ++stage)
      outcome.difference =
          std::max(outcome.difference, relativeDifference(executor.stage(stage).layer.gradient,
                                                          reference.layers[stage].gradient));
    reference.descend();
    outcome.lastLoss = executor.stage(stageCount - 1).lastLoss;
    if (step == 0)
      outcome.firstLoss = outcome.lastLoss;
  }
  std::vector<Layer> trained;
  for (const auto &stage : executor.copies()) {
    trained.push_back(stage->layer);
    outcome.hash ^= stage->gradientHash;
  }
  outcome.accuracy = accuracy(setup, trained);
  return outcome;
}

/// All steps in one run, in which no device waits for another at the end of a step.
template <class Schedule> static uint64_t hashOfOneRun(const Schedule &schedule, const Setup &setup) {
  Executor<MlpStage, Schedule> executor(
      schedule, [&](const Copy &copy) { return std::make_unique<MlpStage>(setup, copy.stage); },
      {.seed = seed});
  executor.run(steps);
  uint64_t hash = 0;
  for (const auto &stage : executor.copies())
    hash ^= stage->gradientHash;
  return hash;
}

static bool passed = true;
static void demand(bool holds, const char *what) {
  if (!holds) {
    std::printf("  failed: %s\n", what);
    passed = false;
  }
}

template <class Schedule> static void report(const char *name, const Schedule &schedule, Setup setup) {
  setup.firstRow = firstRows(schedule, setup.data->classes.size());
  const Outcome outcome = train(schedule, setup);
  const bool same = !setup.wrongReplay && hashOfOneRun(schedule, setup) == outcome.hash;
  std::printf("%-24s %4zu..%-3zu %7.2f  %6.4f -> %6.4f  %7.1f%%  %12.1e  %s\n", name, setup.rowsOf(0),
              setup.rowsOf(schedule.microbatches - 1), setup.dropout, outcome.firstLoss, outcome.lastLoss,
              100 * outcome.accuracy, outcome.difference,
              setup.wrongReplay ? "a fault on purpose"
              : same            ? "same bits"
                                : "DIFFERENT BITS");
  if (setup.wrongReplay) {
    demand(outcome.difference > 1e-3, "a wrong dropout mask must show in the gradients");
    return;
  }
  demand(outcome.difference <= tolerance, "gradients equal those of the full batch");
  demand(same, "gradients are the same, bit by bit, from run to run");
  demand(outcome.lastLoss < 0.5 * outcome.firstLoss, "the loss falls");
}

/// Batch norm takes its statistics over a microbatch: a pipeline equals the training that does so over the
/// same rows, and does not equal the full batch. No schedule can change that.
template <class Schedule> static void reportBatchNorm(const Schedule &schedule, Setup setup) {
  setup.firstRow = firstRows(schedule, setup.data->classes.size());
  const Outcome full = train(schedule, setup);
  const Outcome each = train(schedule, setup, Normalise::EachMicrobatch);
  std::printf(
      "\nwith batch norm in the hidden stages, from one_f_one_b to\n"
      "  statistics of each microbatch  %8.1e\n"
      "  statistics of the full batch   %8.1e  NOT the full batch: a pipeline normalises microbatches\n",
      each.difference, full.difference);
  demand(each.difference <= tolerance, "batch norm equals training that normalises each microbatch");
  demand(full.difference > 1e-3, "batch norm over microbatches differs from batch norm over the batch");
}

int main(int argc, char **argv) try {
  const Dataset data = readDataset(argc > 1 ? argv[1] : "iris.csv");
  Setup plain{.data = &data, .firstRow = {0, data.classes.size()}, .learningRate = 0.3};
  Setup dropout = plain;
  dropout.dropout = 0.2;
  Setup wrong = dropout;
  wrong.wrongReplay = true;

  std::printf("Iris, %zu samples a step, %u stages on %zu devices, %llu steps of gradient descent\n\n",
              data.classes.size(), stageCount, gpipe::schedule.devices.size(),
              static_cast<unsigned long long>(steps));
  Setup withBatchNorm = plain;
  withBatchNorm.batchNorm = true;
  withBatchNorm.learningRate = 0.03; // at 0.1 rounding grows to 1e-6 within the hundred steps
  const double error = std::max(finiteDifferenceError(plain), finiteDifferenceError(withBatchNorm));
  std::printf("full-batch gradients against finite differences: %.1e\n\n", error);
  demand(error < 1e-8, "the full batch computes a gradient");
  std::printf(
      "schedule                 samples  dropout  loss               accuracy  difference    run to run\n");
  report("gpipe", gpipe::schedule, plain);
  report("one_f_one_b", one_f_one_b::schedule, plain);
  report("uneven", uneven::schedule, plain);
  report("one_f_one_b, dropout", one_f_one_b::schedule, dropout);
  report("recomputing, dropout", recomputing::schedule, dropout);
  report("recomputing, wrong mask", recomputing::schedule, wrong);
  reportBatchNorm(one_f_one_b::schedule, withBatchNorm);

  std::printf(
      "\nsamples: of the first and the last microbatch. difference: the largest of any gradient in any step\n"
      "from full-batch training, relative to the largest gradient of its stage; at most %.0e is demanded.\n"
      "Bitwise equality with the full batch is not promised: microbatches are added in another order than\n"
      "the rows of a batch. From run to run the order is the same, and so is every bit.\n\n%s\n",
      tolerance, passed ? "PASS" : "FAIL");
  return passed ? 0 : 1;
} catch (const std::exception &error) {
  std::printf("FAIL: %s\n", error.what());
  return 1;
}
