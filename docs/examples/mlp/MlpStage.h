// A stage as the runtime wants it: the glue between a schedule's ops and a Layer.
#pragma once

#include "Layer.h"

#include <cstring>

namespace mlp {

using sluice::runtime::Context;

/// What all stages share.
struct Setup {
  const Dataset *data = nullptr;
  std::vector<std::size_t> firstRow; ///< Of each microbatch, and the end of the last one.
  double learningRate = 0, dropout = 0;
  bool batchNorm = false;   ///< In hidden stages.
  bool wrongReplay = false; ///< Recomputes draw another mask than their forwards did: a fault on purpose.

  std::size_t rowsOf(unsigned microbatch) const { return firstRow[microbatch + 1] - firstRow[microbatch]; }
  bool hasDropout(unsigned stage) const { return dropout > 0 && (stage == 1 || stage == 2); }
};

class MlpStage {
public:
  using Boundary = Matrix;
  using Saved = LayerState;

  MlpStage(const Setup &settings, unsigned stage) : layer(stage), setup(settings) {
    layer.hasBatchNorm = settings.batchNorm;
  }

  void load(const Context &c, Matrix &input) const {
    const Matrix &all = setup.data->features;
    input.resize(setup.rowsOf(c.microbatch), all.columns);
    std::copy_n(all.values.begin() + static_cast<std::ptrdiff_t>(setup.firstRow[c.microbatch] * all.columns),
                input.values.size(), input.values.begin());
  }

  void forward(const Context &c, const Matrix &input, Matrix &output, LayerState &saved) const {
    drawMask(c.stage, input.rows, c.randomKey, saved.mask);
    layer.forward(input, output, saved);
  }

  void recompute(const Context &c, const Matrix &input, LayerState &saved) const {
    drawMask(c.stage, input.rows, setup.wrongReplay ? ~c.randomKey : c.randomKey, saved.mask);
    Matrix output;
    layer.forward(input, output, saved);
  }

  void loss(const Context &c, const Matrix &output, Matrix &gradient) {
    const std::span classes =
        std::span(setup.data->classes).subspan(setup.firstRow[c.microbatch], output.rows);
    lossOfStep += crossEntropy(output, classes, c.lossFactor / static_cast<double>(output.rows), gradient);
  }

  void backward(const Context &c, const Matrix &gradient, LayerState &saved, Matrix &inputGradient) {
    if (c.firstContribution)
      layer.clearGradient();
    layer.backward(gradient, saved, inputGradient);
  }

  /// One copy and one replica: nothing to add. Gradients of several replicas would be summed here.
  void reduce(const Context &) {}

  void update(const Context &) {
    layer.descend(setup.learningRate);
    for (double value : layer.gradient.values) {
      uint64_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      gradientHash = sluice::runtime::mixBits(gradientHash ^ bits);
    }
    lastLoss = lossOfStep;
    lossOfStep = 0;
  }

  Layer layer;
  double lastLoss = 0;       ///< Of the step before; last stage only.
  uint64_t gradientHash = 0; ///< Over every bit of the gradients of all steps.

private:
  void drawMask(unsigned stage, std::size_t rows, uint64_t key, Matrix &mask) const {
    mask.resize(setup.hasDropout(stage) ? rows : 0, widths[stage + 1]);
    fillMask(mask, 0, mask.rows, key, setup.dropout);
  }
  const Setup &setup;
  double lossOfStep = 0;
};

} // namespace mlp
