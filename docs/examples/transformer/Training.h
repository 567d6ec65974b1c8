// Runs one schedule beside unpipelined training and says how far apart they are.
#pragma once

#include "Unpipelined.h"

#include <sluice/Executor.h>

#include <cstdio>

namespace transformer {

/// Unpipelined training, once for all schedules that are compared with it.
template <class Real> class Reference {
public:
  Reference(const Setup &setup, uint64_t steps) {
    Unpipelined<Real> training(setup);
    for (uint64_t step = 0; step < steps; ++step) {
      losses.push_back(static_cast<double>(training.computeGradients(step)));
      std::vector<Matrix<Real>> &gradients = gradientsOfStep.emplace_back();
      training.whole.visit([&](Tensor<Real> &tensor) { gradients.push_back(tensor.gradient); });
      gradients.push_back(training.whole.tied->tokens.gradient);
      training.descend();
    }
    training.whole.blocks[0].visit([&](Tensor<Real> &) { ++tensorsOfBlock; });
  }

  /// Largest difference of any gradient that a stage has used in a step.
  double difference(uint64_t step, Part<Real> &part, unsigned firstBlock) const {
    const std::vector<Matrix<Real>> &wanted = gradientsOfStep[step];
    std::size_t number = part.isFirst ? 0 : 1 + tensorsOfBlock * firstBlock; // the positions come first
    double worst = 0;
    part.visit([&](Tensor<Real> &tensor) {
      worst = std::max(worst, relativeDifference<Real>(tensor.gradient, wanted[number++]));
    });
    if (part.holdsTied())
      worst = std::max(worst, relativeDifference<Real>(part.tied->tokens.gradient, wanted.back()));
    return worst;
  }
  std::vector<double> losses;

private:
  std::vector<std::vector<Matrix<Real>>> gradientsOfStep;
  std::size_t tensorsOfBlock = 0;
};

struct Outcome {
  double firstLoss = 0, lastLoss = 0, difference = 0;
  uint64_t hash = 0;
  bool copiesAgree = true; ///< All copies and replicas of a stage have the same weights, bit by bit.
};

/// The loss of a step: every copy of the last stage has seen its share of the microbatches.
template <class Executor> double lossOf(const Executor &executor) {
  double loss = 0;
  for (const auto &stage : executor.copies())
    loss += stage->part.isLast ? stage->lastLoss : 0;
  return loss;
}

template <class Executor> uint64_t hashOf(const Executor &executor) {
  uint64_t hash = 0;
  for (const auto &stage : executor.copies())
    hash = sluice::runtime::mixBits(hash ^ stage->gradientHash);
  return hash;
}

/// Step by step, each compared with the reference.
template <class Real, class Schedule>
Outcome train(const Schedule &schedule, const Setup &setup, const Reference<Real> &reference) {
  sluice::runtime::Executor<TransformerStage<Real>, Schedule> executor(
      schedule, StageMaker<Real>(setup, schedule), {.seed = setup.seed});
  Outcome outcome;
  for (uint64_t step = 0; step < reference.losses.size(); ++step) {
    executor.run();
    for (const auto &stage : executor.copies())
      outcome.difference =
          std::max(outcome.difference, reference.difference(step, stage->part, stage->firstBlock));
    outcome.lastLoss = lossOf(executor);
    if (step == 0)
      outcome.firstLoss = outcome.lastLoss;
  }
  outcome.hash = hashOf(executor);
  std::map<unsigned, std::vector<Matrix<Real>>> weights; // of the first copy of each stage
  for (const auto &stage : executor.copies()) {
    std::vector<Matrix<Real>> mine;
    stage->part.visit([&](Tensor<Real> &tensor) { mine.push_back(tensor.value); });
    if (stage->part.holdsTied())
      mine.push_back(stage->part.tied->tokens.value);
    const auto [first, isNew] = weights.try_emplace(stage->firstBlock, mine);
    outcome.copiesAgree &= isNew || first->second == mine;
  }
  return outcome;
}

/// All steps in one run, in which no device waits for another at the end of a step.
template <class Real, class Schedule>
uint64_t hashOfOneRun(const Schedule &schedule, const Setup &setup, uint64_t steps) {
  sluice::runtime::Executor<TransformerStage<Real>, Schedule> executor(
      schedule, StageMaker<Real>(setup, schedule), {.seed = setup.seed});
  executor.run(steps);
  return hashOf(executor);
}

} // namespace transformer
