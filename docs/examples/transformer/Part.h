// Some blocks of the model in a row, with the embedding if they are its first and the output layer if they
// are its last. A stage is a part; the unpipelined model is the part that holds all. Knows nothing of
// pipelines.
#pragma once

#include "Block.h"

#include <memory>
#include <span>
#include <vector>

namespace transformer {

/// The embedding of tokens, which is the output layer as well. One for each device: parts of it share it.
template <class Real> struct TiedWeight {
  Tensor<Real> tokens; ///< A row for each token.
  bool isUsedUp = false;

  explicit TiedWeight(const Shape &shape) {
    tokens.draw(shape.vocabulary, shape.width, 77, std::sqrt(3.0 / static_cast<double>(shape.width)));
  }
  /// Called before every contribution, whichever part it comes from: the first after an update finds nothing.
  void contribute() {
    if (isUsedUp)
      tokens.gradient.setZero();
    isUsedUp = false;
  }
};

template <class Real> struct PartState {
  std::vector<unsigned> tokens; ///< First part.
  Matrix<Real> embeddingMask;   ///< Given before the forward; empty without dropout.
  std::vector<BlockState<Real>> blocks;
  typename LayerNorm<Real>::State last; ///< Last part, as the output's input.
  Matrix<Real> normal;
};
template <class Real> struct PartPending {
  std::vector<unsigned> tokens;
  Matrix<Real> embeddingGradient;
  std::vector<BlockPending<Real>> blocks;
  Matrix<Real> normalised, normalGradient, normal, logitGradient;
};

template <class Real> class Part {
public:
  Part(const Shape &ofModel, unsigned first, unsigned count, std::shared_ptr<TiedWeight<Real>> tiedWeight)
      : shape(ofModel), isFirst(first == 0), isLast(first + count == ofModel.blocks),
        tied(std::move(tiedWeight)), blocks(count) {
    for (unsigned b = 0; b < count; ++b)
      blocks[b].draw(shape, first + b);
    if (isFirst)
      positions.draw(shape.length, shape.width, 99, 0.5);
    if (isLast)
      last.draw(shape.width);
  }

  /// `input`: of the first part the tokens, as numbers in one column. `output`: of the last part the logits.
  void forward(const Matrix<Real> &input, Matrix<Real> &output, PartState<Real> &state) const {
    state.blocks.resize(blocks.size());
    Matrix<Real> value;
    if (isFirst)
      embed(input, value, state);
    else
      value = input;
    for (std::size_t b = 0; b < blocks.size(); ++b)
      blocks[b].forward(value, value, state.blocks[b]);
    if (!isLast)
      return output.swap(value);
    last.forward(value, state.normal, state.last);
    output.noalias() = state.normal * tied->tokens.value.transpose();
  }

  void inputHalf(const Matrix<Real> &outputGradient, PartState<Real> &state, Matrix<Real> &inputGradient,
                 PartPending<Real> &pending) const {
    pending.blocks.resize(blocks.size());
    Matrix<Real> gradient, below;
    if (isLast) {
      pending.logitGradient = outputGradient;
      pending.normalGradient.noalias() = outputGradient * tied->tokens.value;
      gradient.setZero(outputGradient.rows(), shape.width);
      last.inputHalf(pending.normalGradient, state.last, gradient);
      pending.normal.swap(state.normal);
      pending.normalised.swap(state.last.normal);
    } else {
      gradient = outputGradient;
    }
    for (std::size_t b = blocks.size(); b-- > 0;) {
      blocks[b].inputHalf(gradient, state.blocks[b], below, pending.blocks[b]);
      gradient.swap(below);
    }
    if (!isFirst)
      return inputGradient.swap(gradient);
    if (state.embeddingMask.size() != 0)
      gradient.array() *= state.embeddingMask.array();
    pending.embeddingGradient.swap(gradient);
    pending.tokens.swap(state.tokens);
  }

  void weightHalf(const PartPending<Real> &pending) {
    if (isFirst || isLast)
      tied->contribute();
    if (isLast) {
      tied->tokens.gradient.noalias() += pending.logitGradient.transpose() * pending.normal;
      last.weightHalf(pending.normalised, pending.normalGradient);
    }
    for (std::size_t b = blocks.size(); b-- > 0;)
      blocks[b].weightHalf(pending.blocks[b]);
    if (isFirst)
      for (std::size_t row = 0; row < pending.tokens.size(); ++row) {
        const auto gradient = pending.embeddingGradient.row(static_cast<Index>(row));
        tied->tokens.gradient.row(pending.tokens[row]) += gradient;
        positions.gradient.row(static_cast<Index>(row) % shape.length) += gradient;
      }
  }

  /// Every weight of this part but the tied one.
  template <class Visit> void visit(Visit &&visit) {
    if (isFirst)
      visit(positions);
    for (Block<Real> &block : blocks)
      block.visit(visit);
    if (isLast)
      last.visit(visit);
  }
  template <class Visit> void visitBlock(std::size_t block, Visit &&visit) { blocks[block].visit(visit); }
  void clearGradients() {
    visit([](Tensor<Real> &tensor) { tensor.gradient.setZero(); });
  }
  bool holdsTied() const { return isFirst || isLast; }

  const Shape shape;
  const bool isFirst, isLast;
  const std::shared_ptr<TiedWeight<Real>> tied;
  std::vector<Block<Real>> blocks;
  Tensor<Real> positions;
  LayerNorm<Real> last;

private:
  void embed(const Matrix<Real> &input, Matrix<Real> &value, PartState<Real> &state) const {
    state.tokens.resize(static_cast<std::size_t>(input.rows()));
    value.resize(input.rows(), shape.width);
    for (Index row = 0; row < input.rows(); ++row) {
      const unsigned token = static_cast<unsigned>(input(row, 0));
      state.tokens[static_cast<std::size_t>(row)] = token;
      value.row(row) = tied->tokens.value.row(token) + positions.value.row(row % shape.length);
    }
    if (state.embeddingMask.size() != 0)
      value.array() *= state.embeddingMask.array();
  }
};

/// Mean cross-entropy of the next token, times `weight`; fills the gradient of the logits.
template <class Real>
Real crossEntropy(const Matrix<Real> &logits, std::span<const unsigned> next, Real weight,
                  Matrix<Real> &gradient) {
  gradient.resize(logits.rows(), logits.cols());
  const Real share = weight / static_cast<Real>(logits.rows());
  Real loss = 0;
  for (Index row = 0; row < logits.rows(); ++row) {
    const Real largest = logits.row(row).maxCoeff();
    gradient.row(row) = (logits.row(row).array() - largest).exp();
    const Real sum = gradient.row(row).sum();
    const unsigned token = next[static_cast<std::size_t>(row)];
    loss += share * (std::log(sum) + largest - logits(row, token));
    gradient.row(row) *= share / sum;
    gradient(row, token) -= share;
  }
  return loss;
}

} // namespace transformer
