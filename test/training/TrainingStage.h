// A layer of the perceptron of docs/examples/mlp as a stage, with every callback that a schedule of the
// library calls: halves of backwards, copies, replicas, several versions of its weights, splits of a
// microbatch.
#pragma once

#include "Layer.h"

#include <sluice/Executor.h>

#include <cstring>
#include <stdexcept>
#include <vector>

namespace sluice::test {

using mlp::Matrix;
using runtime::Context;

/// Data and settings, the same for a pipeline and for what it is compared with.
struct Lesson {
  unsigned stages = 1, replicas = 1, splits = 1;
  std::vector<std::size_t> firstRow; ///< Of each microbatch (unit) of a replica, and the end of the last.
  double dropout = 0.1, rate = 0.1;
  uint64_t seed = 5;
  bool wrongReplay = false; ///< Recomputes draw another mask than their forwards did: a fault on purpose.

  static constexpr std::size_t inputs = 3, width = 5, classes = 3;
  std::size_t microbatches() const { return firstRow.size() - 1; }
  std::size_t rowsOf(unsigned microbatch) const { return firstRow[microbatch + 1] - firstRow[microbatch]; }
  std::size_t rows() const { return replicas * firstRow.back(); }
  std::size_t rowOf(unsigned replica, unsigned microbatch) const {
    return replica * firstRow.back() + firstRow[microbatch];
  }
  bool hasDropout(unsigned stage) const { return dropout > 0 && stage + 1 < stages; }

  mlp::Layer layer(unsigned stage) const {
    return {stage == 0 ? inputs : width, stage + 1 == stages ? classes : width, stage + 1 == stages,
            (stage + 1) * uint64_t{1000}};
  }
  void fillInput(Matrix &input, std::size_t first, std::size_t count) const {
    input.resize(count, inputs);
    for (std::size_t i = 0; i < input.values.size(); ++i)
      input.values[i] = 2 * mlp::uniform(77'000 + first * inputs + i) - 1;
  }
  std::vector<unsigned> classesOf(std::size_t first, std::size_t count) const {
    std::vector<unsigned> result;
    for (std::size_t row = first; row < first + count; ++row)
      result.push_back(static_cast<unsigned>(runtime::mixBits(row) % classes));
    return result;
  }
  void drawMask(Matrix &mask, unsigned stage, std::size_t rows, uint64_t key) const {
    mask.resize(hasDropout(stage) ? rows : 0, width);
    mlp::fillMask(mask, 0, mask.rows, key, dropout);
  }
};

class TrainingStage {
public:
  using Boundary = Matrix;
  using Saved = mlp::LayerState;
  struct Pending {
    Matrix sumGradient, input;
  };
  /// What the splits of a microbatch hand to each other: here only how many have been there.
  struct Carry {
    uint32_t splits = 0;
  };

  TrainingStage(const Lesson &ofAll, const runtime::Copy &where)
      : copy(where), lesson(ofAll), versions(std::max(1u, where.versions), lesson.layer(where.stage)) {}

  void load(const Context &c, Matrix &input) const {
    lesson.fillInput(input, lesson.rowOf(c.replica, c.microbatch), lesson.rowsOf(c.microbatch));
  }
  template <class... More>
  void forward(const Context &c, const Matrix &input, Matrix &output, Saved &saved, More &...more) {
    (pass(c, more), ...);
    lesson.drawMask(saved.mask, c.stage, input.rows, c.randomKey);
    versions[c.weights].forward(input, output, saved);
  }
  template <class... More>
  void recompute(const Context &c, const Matrix &input, Saved &saved, More &...) const {
    lesson.drawMask(saved.mask, c.stage, input.rows, lesson.wrongReplay ? ~c.randomKey : c.randomKey);
    Matrix output;
    versions[c.weights].forward(input, output, saved);
  }
  void loss(const Context &c, const Matrix &output, Matrix &gradient) const {
    const std::vector<unsigned> classes =
        lesson.classesOf(lesson.rowOf(c.replica, c.microbatch), output.rows);
    // The mean loss of a whole microbatch is the mean of those of its splits.
    mlp::crossEntropy(output, classes, c.lossFactor / lesson.splits / static_cast<double>(output.rows),
                      gradient);
  }
  template <class... More>
  void backward(const Context &c, const Matrix &gradient, Saved &saved, Matrix &inputGradient,
                More &...more) {
    Pending pending;
    backwardInput(c, gradient, saved, inputGradient, pending, more...);
    backwardWeight(c, pending);
  }
  template <class... More>
  void backwardInput(const Context &c, const Matrix &gradient, Saved &saved, Matrix &inputGradient,
                     Pending &pending, More &...more) {
    (pass(c, more), ...);
    versions[c.weights].inputHalf(gradient, saved, pending.sumGradient, inputGradient);
    std::swap(pending.input, saved.input);
  }
  void backwardWeight(const Context &c, Pending &pending) {
    mlp::Layer &layer = versions.front(); // whose gradient is that of all versions
    if (c.firstContribution)
      layer.clearGradient();
    layer.weightHalf(pending.sumGradient, pending.input);
  }
  void zero(const Context &) { versions.front().clearGradient(); }

  void pack(const Context &, Matrix &buffer) const { buffer = gradient(); }
  void unpack(const Context &, const Matrix &buffer) { versions.front().gradient = buffer; }
  void add(const Context &, const Matrix &buffer) {
    std::vector<double> &sum = versions.front().gradient.values;
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] += buffer.values[i];
  }

  void update(const Context &c) {
    for (double value : gradient().values) {
      uint64_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      gradientHash = runtime::mixBits(gradientHash ^ bits);
    }
    const Matrix &before = versions[c.weights].weights;
    Matrix &after = versions[c.newWeights].weights;
    for (std::size_t i = 0; i < before.values.size(); ++i)
      after.values[i] = before.values[i] - lesson.rate * gradient().values[i];
  }

  const Matrix &gradient() const { return versions.front().gradient; }
  const Matrix &weights(uint32_t version = 0) const { return versions[version].weights; }

  const runtime::Copy copy;
  uint64_t gradientHash = 0; ///< Over every bit of the gradients of all updates.

private:
  void pass(const Context &c, Carry &carry) const {
    if (lesson.splits == 1)
      return;
    const bool isForward = c.op == runtime::Op::Forward;
    if (isForward && c.split == 0)
      carry.splits = 0;
    if (carry.splits != (isForward ? c.split : c.split + 1))
      throw std::logic_error("the carry is not that of the splits before");
    carry.splits += isForward ? 1 : -1;
  }
  template <class Other> void pass(const Context &, const Other &) const {} // operands of other kinds

  const Lesson &lesson;
  std::vector<mlp::Layer> versions;
};

} // namespace sluice::test
