// Matrices of Eigen, weights with their gradients, and numbers drawn from keys.
//
// A row of an activation is one token; the tokens of a sequence are successive rows, and so are the sequences
// of a microbatch.
#pragma once

#include <sluice/Context.h>

#include <Eigen/Core>

#include <cstdint>

namespace transformer {

template <class Real> using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Eigen::Index;

/// Sizes of the whole model, wherever it is cut.
struct Shape {
  Index vocabulary = 128, width = 24, heads = 4, hidden = 96, length = 24; ///< length: tokens of a sequence.
  unsigned blocks = 4;
};

/// A number in 0..1 from a key.
inline double uniform(uint64_t key) {
  return static_cast<double>(sluice::runtime::mixBits(key) >> 11) * 0x1p-53;
}

/// A weight, what its gradient has come to, and the velocity of the descent.
template <class Real> struct Tensor {
  Matrix<Real> value, gradient, velocity;

  void resize(Index rows, Index columns) {
    value.setZero(rows, columns);
    gradient.setZero(rows, columns);
    velocity.setZero(rows, columns);
  }
  /// Uniform in -size..size, from a key: the same wherever the stage lives.
  void draw(Index rows, Index columns, uint64_t key, double size) {
    resize(rows, columns);
    for (Index i = 0; i < value.size(); ++i)
      value.data()[i] = static_cast<Real>((2 * uniform(key + static_cast<uint64_t>(i)) - 1) * size);
  }
  void descend(Real rate, Real momentum) {
    velocity = momentum * velocity + gradient;
    value -= rate * velocity;
  }
};

/// Fills `rows` rows of a dropout mask from one key, from row `first` on: 0, or 1 / (1 - rate).
template <class Real> void fillMask(Matrix<Real> &mask, Index first, Index rows, uint64_t key, double rate) {
  for (Index i = 0; i < rows * mask.cols(); ++i)
    mask.data()[first * mask.cols() + i] =
        uniform(key + static_cast<uint64_t>(i)) < rate ? Real(0) : static_cast<Real>(1 / (1 - rate));
}

} // namespace transformer
