// The mathematics of one stage, in double and by hand: a linear layer, then tanh and dropout (hidden
// stages) or softmax cross-entropy (the last); on request hidden stages normalise over the batch in between
// (Ioffe and Szegedy 2015, without scale and shift). Knows nothing of pipelines.
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
  /// Of batch norm: the rows that are normalised together, as the first of each such group and the end of the
  /// last; empty: all rows together. Then the normalised values, and by group what they were divided by.
  std::vector<std::size_t> groups;
  Matrix normal, deviation;
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
  explicit Layer(unsigned stage)
      : Layer(widths[stage], widths[stage + 1], stage + 1 == stageCount, stage * 1000) {}
  /// `key`: what its first weights are drawn from.
  Layer(std::size_t inputs, std::size_t outputs, bool isLastLayer, uint64_t key) : isLast(isLastLayer) {
    weights.resize(inputs + 1, outputs); // the last row is the bias
    gradient.resize(weights.rows, weights.columns);
    for (std::size_t i = 0; i < inputs * outputs; ++i)
      weights.values[i] = (2 * uniform(key + i + 1) - 1) * std::sqrt(3.0 / static_cast<double>(inputs));
  }

  /// state.mask and state.groups are given; the rest of `state` is filled.
  void forward(const Matrix &input, Matrix &output, LayerState &state) const {
    state.input = input;
    output.resize(input.rows, weights.columns);
    for (std::size_t r = 0; r < input.rows; ++r)
      for (std::size_t c = 0; c < weights.columns; ++c) {
        double sum = weights.at(input.columns, c);
        for (std::size_t k = 0; k < input.columns; ++k)
          sum += input.at(r, k) * weights.at(k, c);
        output.at(r, c) = sum;
      }
    if (!isLast && hasBatchNorm)
      normalise(output, state);
    if (!isLast)
      for (double &value : output.values)
        value = std::tanh(value);
    state.activation = output;
    for (std::size_t i = 0; i < state.mask.values.size(); ++i)
      output.values[i] *= state.mask.values[i];
  }

  /// The half that the stage before waits for: the gradients of the sums and of the input.
  void inputHalf(const Matrix &outputGradient, const LayerState &state, Matrix &sumGradient,
                 Matrix &inputGradient) const {
    sumGradient = outputGradient;
    for (std::size_t i = 0; i < sumGradient.values.size(); ++i) {
      if (!state.mask.values.empty())
        sumGradient.values[i] *= state.mask.values[i];
      if (!isLast)
        sumGradient.values[i] *= 1 - state.activation.values[i] * state.activation.values[i];
    }
    if (!isLast && hasBatchNorm)
      throughNormalisation(sumGradient, state);
    inputGradient.resize(state.input.rows, state.input.columns);
    for (std::size_t r = 0; r < sumGradient.rows; ++r)
      for (std::size_t k = 0; k < state.input.columns; ++k)
        for (std::size_t c = 0; c < sumGradient.columns; ++c)
          inputGradient.at(r, k) += weights.at(k, c) * sumGradient.at(r, c);
  }

  /// The other half: adds to `gradient`. As a matrix product does it: the rows of the microbatch are summed,
  /// then added to what is there.
  void weightHalf(const Matrix &sumGradient, const Matrix &input) {
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

  /// Both halves.
  void backward(const Matrix &outputGradient, const LayerState &state, Matrix &inputGradient) {
    Matrix sumGradient;
    inputHalf(outputGradient, state, sumGradient, inputGradient);
    weightHalf(sumGradient, state.input);
  }

  void clearGradient() { std::fill(gradient.values.begin(), gradient.values.end(), 0); }
  void descend(double rate) {
    for (std::size_t i = 0; i < weights.values.size(); ++i)
      weights.values[i] -= rate * gradient.values[i];
  }

  Matrix weights, gradient;
  bool hasBatchNorm = false;

private:
  /// Visits each column of each group: its rows first..end, and the number of the group.
  template <class Visit> static void visitGroups(const LayerState &state, std::size_t rows, Visit &&visit) {
    if (state.groups.empty())
      return visit(std::size_t(0), rows, std::size_t(0));
    for (std::size_t g = 0; g + 1 < state.groups.size(); ++g)
      visit(state.groups[g], state.groups[g + 1], g);
  }
  static void normalise(Matrix &sums, LayerState &state) {
    state.deviation.resize(state.groups.empty() ? 1 : state.groups.size() - 1, sums.columns);
    visitGroups(state, sums.rows, [&](std::size_t first, std::size_t end, std::size_t group) {
      const double count = static_cast<double>(end - first);
      for (std::size_t c = 0; c < sums.columns; ++c) {
        double mean = 0, square = 0;
        for (std::size_t r = first; r < end; ++r)
          mean += sums.at(r, c) / count;
        for (std::size_t r = first; r < end; ++r)
          square += (sums.at(r, c) - mean) * (sums.at(r, c) - mean) / count;
        state.deviation.at(group, c) = std::sqrt(square + 1e-3);
        for (std::size_t r = first; r < end; ++r)
          sums.at(r, c) = (sums.at(r, c) - mean) / state.deviation.at(group, c);
      }
    });
    state.normal = sums;
  }
  static void throughNormalisation(Matrix &gradients, const LayerState &state) {
    visitGroups(state, gradients.rows, [&](std::size_t first, std::size_t end, std::size_t group) {
      const double count = static_cast<double>(end - first);
      for (std::size_t c = 0; c < gradients.columns; ++c) {
        double mean = 0, along = 0;
        for (std::size_t r = first; r < end; ++r) {
          mean += gradients.at(r, c) / count;
          along += gradients.at(r, c) * state.normal.at(r, c) / count;
        }
        for (std::size_t r = first; r < end; ++r)
          gradients.at(r, c) =
              (gradients.at(r, c) - mean - state.normal.at(r, c) * along) / state.deviation.at(group, c);
      }
    });
  }
  bool isLast;
};

} // namespace mlp
