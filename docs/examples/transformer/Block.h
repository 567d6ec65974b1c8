// A block of the transformer: causal attention of several heads and a hidden layer, each behind a layer
// normalisation, dropped out and added to what came in (Radford et al. 2019). Forward, and the two halves of
// the backward.
#pragma once

#include "Layers.h"

#include <algorithm>

namespace transformer {

/// Attention within each sequence; queries, keys and values lie beside each other in a row.
template <class Real> struct Attention {
  Index width, heads, length;

  /// `shares`: for each sequence and head, how much each token attends to each one before it.
  void forward(const Matrix<Real> &qkv, Matrix<Real> &shares, Matrix<Real> &output) const {
    const Index sequences = qkv.rows() / length, size = width / heads;
    const Real scale = 1 / std::sqrt(static_cast<Real>(size));
    shares.resize(sequences * heads * length, length);
    output.resize(qkv.rows(), width);
    for (Index n = 0; n < sequences; ++n)
      for (Index h = 0; h < heads; ++h) {
        auto share = shares.block((n * heads + h) * length, 0, length, length);
        share.noalias() = qkv.block(n * length, h * size, length, size) *
                          qkv.block(n * length, width + h * size, length, size).transpose();
        for (Index row = 0; row < length; ++row)
          soften(share.row(row), row + 1, scale);
        output.block(n * length, h * size, length, size).noalias() =
            share * qkv.block(n * length, 2 * width + h * size, length, size);
      }
  }

  void backward(const Matrix<Real> &qkv, const Matrix<Real> &shares, const Matrix<Real> &outputGradient,
                Matrix<Real> &qkvGradient) const {
    const Index sequences = qkv.rows() / length, size = width / heads;
    const Real scale = 1 / std::sqrt(static_cast<Real>(size));
    qkvGradient.resize(qkv.rows(), qkv.cols());
    Matrix<Real> scores;
    for (Index n = 0; n < sequences; ++n)
      for (Index h = 0; h < heads; ++h) {
        const Index row = n * length, q = h * size, k = width + q, v = 2 * width + q;
        const auto share = shares.block((n * heads + h) * length, 0, length, length);
        const auto gradient = outputGradient.block(row, q, length, size);
        scores.noalias() = gradient * qkv.block(row, v, length, size).transpose();
        for (Index i = 0; i < length; ++i) {
          const Real mean = scores.row(i).dot(share.row(i));
          scores.row(i) = scale * (scores.row(i).array() - mean) * share.row(i).array();
        }
        qkvGradient.block(row, q, length, size).noalias() = scores * qkv.block(row, k, length, size);
        qkvGradient.block(row, k, length, size).noalias() =
            scores.transpose() * qkv.block(row, q, length, size);
        qkvGradient.block(row, v, length, size).noalias() = share.transpose() * gradient;
      }
  }

private:
  /// Softmax over the first `count` entries of a row times `scale`; the others are in the future.
  template <class Row> static void soften(Row &&row, Index count, Real scale) {
    const Real largest = row.head(count).maxCoeff();
    Real sum = 0;
    for (Index i = 0; i < count; ++i)
      sum += row(i) = std::exp(scale * (row(i) - largest));
    row.head(count) /= sum;
    row.tail(row.size() - count).setZero();
  }
};

/// What a forward leaves for the input half.
template <class Real> struct BlockState {
  Matrix<Real> attentionMask, hiddenMask; ///< Given before the forward; empty without dropout.
  typename LayerNorm<Real>::State before, between;
  Matrix<Real> normal, qkv, shares, attended; ///< Of attention: its input, and so on.
  Matrix<Real> normal2, sum, activation;      ///< Of the hidden layer.
};
/// What the input half leaves for the weight half: of each layer its input and the gradient of its output.
template <class Real> struct BlockPending {
  Matrix<Real> normalised, normal, attended, normalised2, normal2, activation;
  Matrix<Real> normalGradient, qkvGradient, attentionGradient, normal2Gradient, sumGradient, hiddenGradient;
};

template <class Real> class Block {
public:
  /// `number`: in the whole model.
  void draw(const Shape &shape, unsigned number) {
    attention = {shape.width, shape.heads, shape.length};
    const uint64_t key = sluice::runtime::mixBits(number + 1);
    before.draw(shape.width);
    between.draw(shape.width);
    // A key's bias would shift all scores of a row alike: it has no gradient.
    projectIn.draw(shape.width, 3 * shape.width, false, key);
    projectOut.draw(shape.width, shape.width, true, key + 1'000'000);
    expand.draw(shape.width, shape.hidden, true, key + 2'000'000);
    contract.draw(shape.hidden, shape.width, true, key + 3'000'000);
  }

  void forward(const Matrix<Real> &input, Matrix<Real> &output, BlockState<Real> &state) const {
    before.forward(input, state.normal, state.before);
    projectIn.forward(state.normal, state.qkv);
    attention.forward(state.qkv, state.shares, state.attended);
    Matrix<Real> branch, middle = input;
    projectOut.forward(state.attended, branch);
    add(branch, state.attentionMask, middle);

    between.forward(middle, state.normal2, state.between);
    expand.forward(state.normal2, state.sum);
    state.activation = state.sum.unaryExpr(&gelu<Real>);
    contract.forward(state.activation, branch);
    add(branch, state.hiddenMask, middle);
    output.swap(middle);
  }

  void inputHalf(const Matrix<Real> &outputGradient, BlockState<Real> &state, Matrix<Real> &inputGradient,
                 BlockPending<Real> &pending) const {
    masked(outputGradient, state.hiddenMask, pending.hiddenGradient);
    contract.inputHalf(pending.hiddenGradient, pending.sumGradient);
    pending.sumGradient.array() *= state.sum.unaryExpr(&geluSlope<Real>).array();
    expand.inputHalf(pending.sumGradient, pending.normal2Gradient);
    inputGradient = outputGradient;
    between.inputHalf(pending.normal2Gradient, state.between, inputGradient);

    masked(inputGradient, state.attentionMask, pending.attentionGradient);
    Matrix<Real> attendedGradient;
    projectOut.inputHalf(pending.attentionGradient, attendedGradient);
    attention.backward(state.qkv, state.shares, attendedGradient, pending.qkvGradient);
    projectIn.inputHalf(pending.qkvGradient, pending.normalGradient);
    before.inputHalf(pending.normalGradient, state.before, inputGradient);

    pending.normalised.swap(state.before.normal);
    pending.normal.swap(state.normal);
    pending.attended.swap(state.attended);
    pending.normalised2.swap(state.between.normal);
    pending.normal2.swap(state.normal2);
    pending.activation.swap(state.activation);
  }

  void weightHalf(const BlockPending<Real> &pending) {
    contract.weightHalf(pending.activation, pending.hiddenGradient);
    expand.weightHalf(pending.normal2, pending.sumGradient);
    between.weightHalf(pending.normalised2, pending.normal2Gradient);
    projectOut.weightHalf(pending.attended, pending.attentionGradient);
    projectIn.weightHalf(pending.normal, pending.qkvGradient);
    before.weightHalf(pending.normalised, pending.normalGradient);
  }

  template <class Visit> void visit(Visit &&visit) {
    before.visit(visit);
    projectIn.visit(visit);
    projectOut.visit(visit);
    between.visit(visit);
    expand.visit(visit);
    contract.visit(visit);
  }

private:
  static void add(const Matrix<Real> &branch, const Matrix<Real> &mask, Matrix<Real> &sum) {
    if (mask.size() == 0)
      sum += branch;
    else
      sum += branch.cwiseProduct(mask);
  }
  static void masked(const Matrix<Real> &gradient, const Matrix<Real> &mask, Matrix<Real> &result) {
    if (mask.size() == 0)
      result = gradient;
    else
      result = gradient.cwiseProduct(mask);
  }

  Attention<Real> attention{};
  LayerNorm<Real> before, between;
  Linear<Real> projectIn, projectOut, expand, contract;
};

} // namespace transformer
