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
  Part(const Shape &ofModel, unsigned first, unsigned count, std::shared_ptr<TiedWeight<Real>> tiedWeight);

  /// `input`: of the first part the tokens, as numbers in one column. `output`: of the last part the logits.
  void forward(const Matrix<Real> &input, Matrix<Real> &output, PartState<Real> &state) const;
  /// Fills the gradient of the input (but of the first part's tokens) and what the weight half needs, taking
  /// what it can from `state`.
  void inputHalf(const Matrix<Real> &outputGradient, PartState<Real> &state, Matrix<Real> &inputGradient,
                 PartPending<Real> &pending) const;
  /// Adds to the gradients.
  void weightHalf(const PartPending<Real> &pending);

  /// Every weight of this part but the tied one.
  template <class Visit> void visit(Visit &&visit) {
    if (isFirst)
      visit(positions);
    for (Block<Real> &block : blocks)
      block.visit(visit);
    if (isLast)
      last.visit(visit);
  }
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
  void embed(const Matrix<Real> &input, Matrix<Real> &value, PartState<Real> &state) const;
};

/// Mean cross-entropy of the next token, times `weight`; fills the gradient of the logits.
template <class Real>
Real crossEntropy(const Matrix<Real> &logits, std::span<const unsigned> next, Real weight,
                  Matrix<Real> &gradient);

} // namespace transformer
