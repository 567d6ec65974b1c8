// The mathematics of one stage, in double and by hand: a linear layer, then tanh and dropout (hidden
// stages) or softmax cross-entropy (the last). Knows nothing of pipelines.
#pragma once

#include "Data.h"

#include <sluice/Context.h>

#include <algorithm>
#include <span>

namespace mlp {

inline constexpr std::size_t widths[] = {4, 16, 16, 16, 3};
inline constexpr unsigned stageCount = 4;

/// What a forward leaves for its backward.
struct LayerState {
  Matrix input, activation, mask; ///< mask: 0 or 1 / (1 - rate); empty without dropout.
};

/// A number in 0..1 from a key.
inline double uniform(uint64_t key) {
  return static_cast<double>(sluice::runtime::mixBits(key) >> 11) * 0x1p-53;
}

/// Fills `count` rows of a dropout mask from one key, from row `first` on.
inline void fillMask(Matrix &mask, std::size_t first, std::size_t count, uint64_t key, double rate) {
  for (std::size_t i = 0; i < count * mask.columns; ++i)
    mask.values[first * mask.columns + i] = uniform(key + i) < rate ? 0 : 1 / (1 - rate);
}

/// Gradient of softmax cross-entropy, each sample weighing `weight`; returns the weighted loss.
inline double crossEntropy(const Matrix &logits, std::span<const unsigned> classes, double weight,
                           Matrix &gradient) {
  gradient.resize(logits.rows, logits.columns);
  double loss = 0;
  for (std::size_t r = 0; r < logits.rows; ++r) {
    double largest = logits.at(r, 0), sum = 0;
    for (std::size_t c = 1; c < logits.columns; ++c)
      largest = std::max(largest, logits.at(r, c));
    for (std::size_t c = 0; c < logits.columns; ++c)
      sum += std::exp(logits.at(r, c) - largest);
    for (std::size_t c = 0; c < logits.columns; ++c)
      gradient.at(r, c) = weight * (std::exp(logits.at(r, c) - largest) / sum - (c == classes[r]));
    loss += weight * (std::log(sum) + largest - logits.at(r, classes[r]));
  }
  return loss;
}

class Layer {
public:
  explicit Layer(unsigned stage) : isLast(stage + 1 == stageCount) {
    weights.resize(widths[stage] + 1, widths[stage + 1]); // the last row is the bias
    gradient.resize(weights.rows, weights.columns);
    for (std::size_t i = 0; i < widths[stage] * widths[stage + 1]; ++i)
      weights.values[i] =
          (2 * uniform(stage * 1000 + i + 1) - 1) * std::sqrt(3.0 / static_cast<double>(widths[stage]));
  }

  /// state.mask is given; the rest of `state` is filled.
  void forward(const Matrix &input, Matrix &output, LayerState &state) const {
    state.input = input;
    output.resize(input.rows, weights.columns);
    for (std::size_t r = 0; r < input.rows; ++r)
      for (std::size_t c = 0; c < weights.columns; ++c) {
        double sum = weights.at(input.columns, c);
        for (std::size_t k = 0; k < input.columns; ++k)
          sum += input.at(r, k) * weights.at(k, c);
        output.at(r, c) = isLast ? sum : std::tanh(sum);
      }
    state.activation = output;
    for (std::size_t i = 0; i < state.mask.values.size(); ++i)
      output.values[i] *= state.mask.values[i];
  }

  /// Adds to `gradient`; fills the gradient of the input.
  void backward(const Matrix &outputGradient, const LayerState &state, Matrix &inputGradient) {
    Matrix sumGradient = outputGradient;
    for (std::size_t i = 0; i < sumGradient.values.size(); ++i) {
      if (!state.mask.values.empty())
        sumGradient.values[i] *= state.mask.values[i];
      if (!isLast)
        sumGradient.values[i] *= 1 - state.activation.values[i] * state.activation.values[i];
    }
    addWeightGradient(sumGradient, state.input);
    inputGradient.resize(state.input.rows, state.input.columns);
    for (std::size_t r = 0; r < sumGradient.rows; ++r)
      for (std::size_t k = 0; k < state.input.columns; ++k)
        for (std::size_t c = 0; c < sumGradient.columns; ++c)
          inputGradient.at(r, k) += weights.at(k, c) * sumGradient.at(r, c);
  }

  void clearGradient() { std::fill(gradient.values.begin(), gradient.values.end(), 0); }
  void descend(double rate) {
    for (std::size_t i = 0; i < weights.values.size(); ++i)
      weights.values[i] -= rate * gradient.values[i];
  }

  Matrix weights, gradient;

private:
  // As a matrix product does it: the rows of the microbatch are summed, then added to what is there.
  void addWeightGradient(const Matrix &sumGradient, const Matrix &input) {
    for (std::size_t c = 0; c < sumGradient.columns; ++c) {
      for (std::size_t k = 0; k < input.columns; ++k) {
        double sum = 0;
        for (std::size_t r = 0; r < input.rows; ++r)
          sum += input.at(r, k) * sumGradient.at(r, c);
        gradient.at(k, c) += sum;
      }
      double bias = 0;
      for (std::size_t r = 0; r < input.rows; ++r)
        bias += sumGradient.at(r, c);
      gradient.at(input.columns, c) += bias;
    }
  }
  bool isLast;
};

} // namespace mlp
