// The same training without a pipeline: the whole batch at once through all layers. Dropout masks are drawn
// for the rows of each microbatch, so that both trainings drop the same elements. Batch norm is over the
// whole batch, as it would be without microbatches, or over the rows of each microbatch, as a pipeline has
// it.
#pragma once

#include "MlpStage.h"

namespace mlp {

enum class Normalise : unsigned char { WholeBatch, EachMicrobatch };

class FullBatch {
public:
  FullBatch(const Setup &settings, uint64_t seedOfRun, Normalise normalise = Normalise::WholeBatch)
      : setup(settings), seed(seedOfRun), normalisedOver(normalise) {
    for (unsigned stage = 0; stage < stageCount; ++stage) {
      layers.emplace_back(stage);
      layers.back().hasBatchNorm = settings.batchNorm;
    }
  }

  /// Computes the gradients of step `step` and returns its loss; `descend` then applies them.
  double computeGradients(uint64_t step) {
    LayerState states[stageCount];
    Matrix value = setup.data->features, gradient, inputGradient;
    for (unsigned stage = 0; stage < stageCount; ++stage) {
      drawMasks(stage, step, states[stage].mask);
      if (normalisedOver == Normalise::EachMicrobatch)
        states[stage].groups = setup.firstRow;
      Matrix output;
      layers[stage].forward(value, output, states[stage]);
      value = std::move(output);
    }
    const double loss =
        crossEntropy(value, setup.data->classes, 1.0 / static_cast<double>(value.rows), gradient);
    for (unsigned stage = stageCount; stage-- > 0;) {
      layers[stage].clearGradient();
      layers[stage].backward(gradient, states[stage], inputGradient);
      std::swap(gradient, inputGradient);
    }
    return loss;
  }

  void descend() {
    for (Layer &layer : layers)
      layer.descend(setup.learningRate);
  }

  std::vector<Layer> layers;

private:
  void drawMasks(unsigned stage, uint64_t step, Matrix &mask) const {
    if (!setup.hasDropout(stage))
      return;
    mask.resize(setup.firstRow.back(), widths[stage + 1]);
    for (unsigned m = 0; m + 1 < setup.firstRow.size(); ++m)
      fillMask(mask, setup.firstRow[m], setup.rowsOf(m), sluice::runtime::randomKey(seed, step, stage, m),
               setup.dropout);
  }
  const Setup &setup;
  uint64_t seed;
  Normalise normalisedOver;
};

} // namespace mlp
