// The same training without a pipeline: the samples of all microbatches and replicas at once, through the
// whole model. Dropout masks are drawn for the rows of each microbatch, with the keys that its stage has in
// the pipeline, so that both trainings drop the same elements.
#pragma once

#include "TransformerStage.h"

namespace transformer {

template <class Real> class Unpipelined {
public:
  explicit Unpipelined(const Setup &settings)
      : whole(settings.shape, 0, settings.shape.blocks, std::make_shared<TiedWeight<Real>>(settings.shape)),
        setup(settings) {}

  /// Computes the gradients of a step and returns its loss; `descend` then applies them.
  Real computeGradients(uint64_t step) {
    Matrix<Real> input(rows(), 1), output, gradient, inputGradient;
    std::vector<unsigned> next;
    Index row = 0;
    for (std::size_t sample = 0; sample < setup.replicas * setup.firstSample.back(); ++sample) {
      for (unsigned token : setup.text->sample(step, sample))
        input(row++, 0) = static_cast<Real>(token);
      for (unsigned token : setup.text->next(step, sample))
        next.push_back(token);
    }
    drawMasks(step);
    whole.forward(input, output, state);
    const Real loss = crossEntropy<Real>(output, next, 1, gradient);
    whole.inputHalf(gradient, state, inputGradient, pending);
    whole.clearGradients();
    whole.tied->isUsedUp = true;
    whole.weightHalf(pending);
    return loss;
  }

  void descend() {
    auto descendOne = [&](Tensor<Real> &tensor) {
      tensor.descend(static_cast<Real>(setup.learningRate), static_cast<Real>(setup.momentum));
    };
    whole.visit(descendOne);
    descendOne(whole.tied->tokens);
  }

  Part<Real> whole;

private:
  Index rows() const {
    return static_cast<Index>(setup.replicas * setup.firstSample.back()) * setup.shape.length;
  }
  void drawMasks(uint64_t step) {
    state.blocks.resize(setup.shape.blocks);
    if (setup.dropout == 0)
      return;
    state.embeddingMask.resize(rows(), setup.shape.width);
    for (BlockState<Real> &block : state.blocks) {
      block.attentionMask.resize(rows(), setup.shape.width);
      block.hiddenMask.resize(rows(), setup.shape.width);
    }
    for (unsigned replica = 0; replica < setup.replicas; ++replica)
      for (unsigned m = 0; m < setup.microbatches(); ++m)
        drawMasks(step, replica, m);
  }
  void drawMasks(uint64_t step, unsigned replica, unsigned m) {
    const Index first = static_cast<Index>(setup.sampleOf(replica, m)) * setup.shape.length;
    const Index count = static_cast<Index>(setup.samplesOf(m)) * setup.shape.length;
    for (unsigned stage = 0; stage < setup.stages; ++stage) {
      const uint64_t key =
          sluice::runtime::randomKey(setup.seed, step, stage, replica * setup.microbatches() + m);
      if (stage == 0)
        fillMask(state.embeddingMask, first, count, embeddingKey(key), setup.dropout);
      for (unsigned b = 0; b < setup.blocksOfStage(); ++b) {
        BlockState<Real> &block = state.blocks[stage * setup.blocksOfStage() + b];
        fillMask(block.attentionMask, first, count, attentionKey(key, b), setup.dropout);
        fillMask(block.hiddenMask, first, count, hiddenKey(key, b), setup.dropout);
      }
    }
  }

  const Setup &setup;
  PartState<Real> state;
  PartPending<Real> pending;
};

/// Largest difference of a gradient, relative to the largest of its tensor.
template <class Real> double relativeDifference(const Matrix<Real> &found, const Matrix<Real> &wanted) {
  const double size = static_cast<double>(wanted.cwiseAbs().maxCoeff());
  return static_cast<double>((found - wanted).cwiseAbs().maxCoeff()) / size;
}

/// Central differences over some entries of every weight: is what unpipelined training computes a gradient?
/// Relative to the largest gradient of the weight.
inline double finiteDifferenceError(const Setup &setup) {
  Unpipelined<double> training(setup);
  double worst = 0;
  auto check = [&](Tensor<double> &tensor) {
    training.computeGradients(0);
    const Matrix<double> exact = tensor.gradient;
    const double size = exact.cwiseAbs().maxCoeff();
    for (Index i = 0; i < exact.size(); i += std::max<Index>(1, exact.size() / 3)) {
      const double h = 1e-4;
      double &weight = tensor.value.data()[i];
      auto lossAt = [&](double change) {
        const double before = weight;
        weight += change;
        const double loss = training.computeGradients(0);
        weight = before;
        return loss;
      };
      // Of fourth order, so that h need not be small.
      const double slope = (8 * (lossAt(h) - lossAt(-h)) - (lossAt(2 * h) - lossAt(-2 * h))) / (12 * h);
      worst = std::max(worst, std::abs(slope - exact.data()[i]) / size);
    }
  };
  training.whole.visit(check);
  check(training.whole.tied->tokens);
  return worst;
}

} // namespace transformer
