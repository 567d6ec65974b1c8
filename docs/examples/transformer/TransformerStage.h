// A stage as the runtime wants it: the glue between the ops of a schedule and a part of the model.
#pragma once

#include "Part.h"
#include "Text.h"

#include <cstring>
#include <map>

namespace transformer {

using sluice::runtime::Context;
using sluice::runtime::Copy;
using sluice::runtime::Op;
using sluice::runtime::Tables;

/// What all stages of a training share.
struct Setup {
  Shape shape;
  std::string textPath;
  const Text *text = nullptr;
  unsigned stages = 1, replicas = 1;
  std::vector<std::size_t> firstSample; ///< Of each microbatch of a replica, and the end of the last one.
  double dropout = 0, learningRate = 0.1, momentum = 0.9;
  uint64_t seed = 0;
  bool wrongReplay = false; ///< Recomputes draw another mask than their forwards did: a fault on purpose.

  unsigned blocksOfStage() const { return shape.blocks / stages; }
  unsigned microbatches() const { return static_cast<unsigned>(firstSample.size()) - 1; }
  std::size_t samplesOf(unsigned microbatch) const {
    return firstSample[microbatch + 1] - firstSample[microbatch];
  }
  /// Number of a microbatch's first sample among all of the step.
  std::size_t sampleOf(unsigned replica, unsigned microbatch) const {
    return replica * firstSample.back() + firstSample[microbatch];
  }
};

/// Keys of the dropout masks of a stage and microbatch: of the embedding, and of its blocks.
inline uint64_t embeddingKey(uint64_t randomKey) { return sluice::runtime::mixBits(randomKey); }
inline uint64_t attentionKey(uint64_t randomKey, unsigned block) {
  return sluice::runtime::mixBits(randomKey + 2 * block + 1);
}
inline uint64_t hiddenKey(uint64_t randomKey, unsigned block) {
  return sluice::runtime::mixBits(randomKey + 2 * block + 2);
}

template <class Real> class TransformerStage {
public:
  using Boundary = Matrix<Real>;
  using Saved = PartState<Real>;
  using Pending = PartPending<Real>;

  TransformerStage(const Setup &settings, const Tables &tables, const Copy &copy,
                   std::shared_ptr<TiedWeight<Real>> tied)
      : firstBlock(copy.stage * settings.blocksOfStage()),
        part(settings.shape, firstBlock, settings.blocksOfStage(), std::move(tied)), setup(settings),
        updatesTied(part.holdsTied() && isLowestHolder(tables, copy)),
        reducesTied(tables.ties.empty() ? copy.stage == 0
                                        : tables.ties[0].isLocal && tables.ties[0].stages[0] == copy.stage) {}

  void load(const Context &c, Matrix<Real> &input) const {
    const std::size_t first = setup.sampleOf(c.replica, c.microbatch);
    input.resize(rowsOf(c), 1);
    Index row = 0;
    for (std::size_t sample = first; sample < first + setup.samplesOf(c.microbatch); ++sample)
      for (unsigned token : setup.text->sample(c.step, sample))
        input(row++, 0) = static_cast<Real>(token);
  }

  void forward(const Context &c, const Matrix<Real> &input, Matrix<Real> &output, Saved &saved) const {
    drawMasks(c, c.randomKey, saved);
    part.forward(input, output, saved);
  }
  void recompute(const Context &c, const Matrix<Real> &input, Saved &saved) const {
    drawMasks(c, setup.wrongReplay ? ~c.randomKey : c.randomKey, saved);
    Matrix<Real> output;
    part.forward(input, output, saved);
  }

  void loss(const Context &c, const Matrix<Real> &output, Matrix<Real> &gradient) {
    std::vector<unsigned> next;
    const std::size_t first = setup.sampleOf(c.replica, c.microbatch);
    for (std::size_t sample = first; sample < first + setup.samplesOf(c.microbatch); ++sample)
      for (unsigned token : setup.text->next(c.step, sample))
        next.push_back(token);
    lossOfStep += crossEntropy<Real>(output, next, static_cast<Real>(c.lossFactor), gradient);
  }

  void backward(const Context &c, const Matrix<Real> &gradient, Saved &saved, Matrix<Real> &inputGradient) {
    backwardInput(c, gradient, saved, inputGradient, wholePending);
    backwardWeight(c, wholePending);
  }
  void backwardInput(const Context &, const Matrix<Real> &gradient, Saved &saved, Matrix<Real> &inputGradient,
                     Pending &pending) const {
    part.inputHalf(gradient, saved, inputGradient, pending);
  }
  void backwardWeight(const Context &c, Pending &pending) {
    if (c.firstContribution)
      part.clearGradients();
    part.weightHalf(pending);
  }

  // What a reduction adds up goes into one row of numbers.
  void pack(const Context &c, Matrix<Real> &buffer) {
    buffer.resize(1, reducedSize(c));
    Index place = 0;
    visitReduced(c, [&](Matrix<Real> &gradient) {
      std::copy_n(gradient.data(), gradient.size(), buffer.data() + place);
      place += gradient.size();
    });
  }
  void add(const Context &c, const Matrix<Real> &buffer) {
    Index place = 0;
    visitReduced(c, [&](Matrix<Real> &gradient) {
      for (Index i = 0; i < gradient.size(); ++i)
        gradient.data()[i] += buffer.data()[place++];
    });
  }
  void unpack(const Context &c, const Matrix<Real> &buffer) {
    Index place = 0;
    visitReduced(c, [&](Matrix<Real> &gradient) {
      std::copy_n(buffer.data() + place, gradient.size(), gradient.data());
      place += gradient.size();
    });
  }

  void update(const Context &) {
    part.visit([&](Tensor<Real> &tensor) { descend(tensor); });
    if (updatesTied) {
      descend(part.tied->tokens);
      part.tied->isUsedUp = true;
    }
    lastLoss = lossOfStep;
    lossOfStep = 0;
  }

  /// Of a message, or of a part of a joint op, so that a transport can size its buffer.
  void shape(const Context &c, Matrix<Real> &boundary) {
    if (c.microbatch == sluice::runtime::noMicrobatch)
      boundary.resize(1, reducedSize(c));
    else
      boundary.resize(rowsOf(c), setup.shape.width);
  }

  const unsigned firstBlock; ///< Of the model.
  Part<Real> part;
  double lastLoss = 0;       ///< Of the step before; last stage only.
  uint64_t gradientHash = 0; ///< Over every bit of the gradients of all steps.

private:
  /// Of the parts on a device that hold the tied weight one updates it: the lowest.
  static bool isLowestHolder(const Tables &tables, const Copy &copy) {
    for (const Copy &other : tables.copies)
      if (other.device == copy.device && other.stage < copy.stage &&
          (other.stage == 0 || other.stage + 1 == tables.stages))
        return false;
    return true;
  }
  Index rowsOf(const Context &c) const {
    return static_cast<Index>(setup.samplesOf(c.microbatch)) * setup.shape.length;
  }
  void drawMasks(const Context &c, uint64_t randomKey, Saved &saved) const {
    const Index rows = setup.dropout > 0 ? rowsOf(c) : 0;
    saved.blocks.resize(setup.blocksOfStage());
    auto draw = [&](Matrix<Real> &mask, uint64_t key) {
      mask.resize(rows, setup.shape.width);
      fillMask(mask, 0, rows, key, setup.dropout);
    };
    draw(saved.embeddingMask, embeddingKey(randomKey));
    for (unsigned b = 0; b < setup.blocksOfStage(); ++b) {
      draw(saved.blocks[b].attentionMask, attentionKey(randomKey, b));
      draw(saved.blocks[b].hiddenMask, hiddenKey(randomKey, b));
    }
  }
  /// A tied weight of several devices is added up by reduce_tied, over all its stages at once; one that is on
  /// one device alone by the reduction of its first stage.
  template <class Visit> void visitReduced(const Context &c, Visit &&visit) {
    if (c.op != Op::ReduceTied)
      part.visit([&](Tensor<Real> &tensor) { visit(tensor.gradient); });
    if (c.op == Op::ReduceTied || reducesTied)
      visit(part.tied->tokens.gradient);
  }
  Index reducedSize(const Context &c) {
    Index size = 0;
    visitReduced(c, [&](Matrix<Real> &gradient) { size += gradient.size(); });
    return size;
  }
  void descend(Tensor<Real> &tensor) {
    for (Index i = 0; i < tensor.gradient.size(); ++i) {
      uint64_t bits = 0;
      std::memcpy(&bits, tensor.gradient.data() + i, sizeof(Real));
      gradientHash = sluice::runtime::mixBits(gradientHash ^ bits);
    }
    tensor.descend(static_cast<Real>(setup.learningRate), static_cast<Real>(setup.momentum));
  }

  const Setup &setup;
  const bool updatesTied, reducesTied;
  double lossOfStep = 0;
  Pending wholePending; // between the halves of a backward that is not split
};

/// Makes the stages of an executor; those of one device share the tied weight.
template <class Real> class StageMaker {
public:
  StageMaker(const Setup &settings, const Tables &schedule) : setup(settings), tables(schedule) {}

  std::unique_ptr<TransformerStage<Real>> operator()(const Copy &copy) {
    std::shared_ptr<TiedWeight<Real>> &tied = tiedOf[{copy.replica, copy.device}];
    if (!tied)
      tied = std::make_shared<TiedWeight<Real>>(setup.shape);
    return std::make_unique<TransformerStage<Real>>(setup, tables, copy, tied);
  }

private:
  const Setup &setup;
  const Tables &tables;
  std::map<std::pair<uint32_t, uint32_t>, std::shared_ptr<TiedWeight<Real>>> tiedOf;
};

} // namespace transformer
