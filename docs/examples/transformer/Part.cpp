// Part.h for double and for float. Compiled once: executors of all schedules call it.
#include "Part.h"

namespace transformer {

template <class Real>
Part<Real>::Part(const Shape &ofModel, unsigned first, unsigned count,
                 std::shared_ptr<TiedWeight<Real>> tiedWeight)
    : shape(ofModel), isFirst(first == 0), isLast(first + count == ofModel.blocks),
      tied(std::move(tiedWeight)), blocks(count) {
  for (unsigned b = 0; b < count; ++b)
    blocks[b].draw(shape, first + b);
  if (isFirst)
    positions.draw(shape.length, shape.width, 99, 0.5);
  if (isLast)
    last.draw(shape.width);
}

template <class Real>
void Part<Real>::embed(const Matrix<Real> &input, Matrix<Real> &value, PartState<Real> &state) const {
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

template <class Real>
void Part<Real>::forward(const Matrix<Real> &input, Matrix<Real> &output, PartState<Real> &state) const {
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

template <class Real>
void Part<Real>::inputHalf(const Matrix<Real> &outputGradient, PartState<Real> &state,
                           Matrix<Real> &inputGradient, PartPending<Real> &pending) const {
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

template <class Real> void Part<Real>::weightHalf(const PartPending<Real> &pending) {
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

template class Part<double>;
template class Part<float>;
template double crossEntropy(const Matrix<double> &, std::span<const unsigned>, double, Matrix<double> &);
template float crossEntropy(const Matrix<float> &, std::span<const unsigned>, float, Matrix<float> &);

} // namespace transformer
