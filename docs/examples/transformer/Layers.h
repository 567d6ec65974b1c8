// A linear layer, layer normalisation and GELU, each with the two halves of its backward: the input half
// gives the gradient of the input, the weight half adds to the gradient of the weights. What the weight half
// needs is the input of the layer and the gradient of its output (of its pre-activation), so that is where a
// backward is cut.
#pragma once

#include "Tensor.h"

#include <cmath>

namespace transformer {

template <class Real> struct Linear {
  Tensor<Real> weight, bias;
  bool hasBias = true;

  void draw(Index inputs, Index outputs, bool withBias, uint64_t key) {
    weight.draw(inputs, outputs, key, std::sqrt(3.0 / static_cast<double>(inputs)));
    hasBias = withBias;
    bias.resize(1, withBias ? outputs : 0);
  }
  void forward(const Matrix<Real> &input, Matrix<Real> &output) const {
    output.noalias() = input * weight.value;
    if (hasBias)
      output.rowwise() += bias.value.row(0);
  }
  void inputHalf(const Matrix<Real> &outputGradient, Matrix<Real> &inputGradient) const {
    inputGradient.noalias() = outputGradient * weight.value.transpose();
  }
  void weightHalf(const Matrix<Real> &input, const Matrix<Real> &outputGradient) {
    weight.gradient.noalias() += input.transpose() * outputGradient;
    if (hasBias)
      bias.gradient += outputGradient.colwise().sum();
  }
  template <class Visit> void visit(Visit &&visit) {
    visit(weight);
    if (hasBias)
      visit(bias);
  }
};

/// Ba, Kiros and Hinton (2016): each row to mean 0 and variance 1, then times gamma plus beta.
template <class Real> struct LayerNorm {
  Tensor<Real> gamma, beta;

  struct State {
    Matrix<Real> normal, scale; ///< The normalised rows, and what each was divided by, inverted.
  };

  void draw(Index width) {
    gamma.resize(1, width);
    gamma.value.setOnes();
    beta.resize(1, width);
  }
  void forward(const Matrix<Real> &input, Matrix<Real> &output, State &state) const {
    state.normal.resize(input.rows(), input.cols());
    state.scale.resize(input.rows(), 1);
    output.resize(input.rows(), input.cols());
    const Real width = static_cast<Real>(input.cols());
    for (Index row = 0; row < input.rows(); ++row) {
      const Real mean = input.row(row).sum() / width;
      state.normal.row(row) = input.row(row).array() - mean;
      const Real variance = state.normal.row(row).squaredNorm() / width;
      state.scale(row, 0) = 1 / std::sqrt(variance + Real(1e-5));
      state.normal.row(row) *= state.scale(row, 0);
      output.row(row) = state.normal.row(row).cwiseProduct(gamma.value.row(0)) + beta.value.row(0);
    }
  }
  /// Adds to the gradient of the input.
  void inputHalf(const Matrix<Real> &outputGradient, const State &state, Matrix<Real> &inputGradient) const {
    const Real width = static_cast<Real>(outputGradient.cols());
    Eigen::Matrix<Real, 1, Eigen::Dynamic> scaled;
    for (Index row = 0; row < outputGradient.rows(); ++row) {
      scaled = outputGradient.row(row).cwiseProduct(gamma.value.row(0));
      const Real mean = scaled.sum() / width;
      const Real along = scaled.dot(state.normal.row(row)) / width;
      inputGradient.row(row).array() +=
          state.scale(row, 0) * (scaled.array() - mean - state.normal.row(row).array() * along);
    }
  }
  void weightHalf(const Matrix<Real> &normal, const Matrix<Real> &outputGradient) {
    gamma.gradient += outputGradient.cwiseProduct(normal).colwise().sum();
    beta.gradient += outputGradient.colwise().sum();
  }
  template <class Visit> void visit(Visit &&visit) {
    visit(gamma);
    visit(beta);
  }
};

/// Hendrycks and Gimpel (2016), in the form with tanh.
template <class Real> Real gelu(Real x) {
  const Real slope = Real(0.7978845608028654); // sqrt(2 / pi)
  return Real(0.5) * x * (1 + std::tanh(slope * (x + Real(0.044715) * x * x * x)));
}
template <class Real> Real geluSlope(Real x) {
  const Real slope = Real(0.7978845608028654);
  const Real t = std::tanh(slope * (x + Real(0.044715) * x * x * x));
  return Real(0.5) * (1 + t) + Real(0.5) * x * (1 - t * t) * slope * (1 + Real(0.134145) * x * x);
}

} // namespace transformer
