// Two trainings without pipelines. FullBatch: all rows of a step at once, one update a step. InOrder:
// microbatch by microbatch, as the ops of a program stand, each with the version of the weights that its text
// asks for; for asynchronous programs, which have no full batch.
#pragma once

#include "IR/Program.h"
#include "TrainingStage.h"

namespace sluice::test {

class FullBatch {
public:
  explicit FullBatch(const Lesson &ofAll) : lesson(ofAll) {
    for (unsigned stage = 0; stage < lesson.stages; ++stage)
      layers.push_back(lesson.layer(stage));
  }
  /// Leaves the gradients of step `step`, then descends.
  void run(uint64_t step) {
    std::vector<mlp::LayerState> states(lesson.stages);
    Matrix value, gradient, below;
    lesson.fillInput(value, 0, lesson.rows());
    for (unsigned stage = 0; stage < lesson.stages; ++stage) {
      drawMasks(stage, step, states[stage].mask);
      Matrix output;
      layers[stage].forward(value, output, states[stage]);
      value = std::move(output);
    }
    mlp::crossEntropy(value, lesson.classesOf(0, value.rows), 1.0 / static_cast<double>(value.rows),
                      gradient);
    for (unsigned stage = lesson.stages; stage-- > 0;) {
      layers[stage].clearGradient();
      layers[stage].backward(gradient, states[stage], below);
      std::swap(gradient, below);
    }
    for (mlp::Layer &layer : layers)
      layer.descend(lesson.rate);
  }
  std::vector<mlp::Layer> layers;

private:
  void drawMasks(unsigned stage, uint64_t step, Matrix &mask) const {
    if (!lesson.hasDropout(stage))
      return;
    mask.resize(lesson.rows(), Lesson::width);
    const auto microbatches = static_cast<unsigned>(lesson.microbatches());
    for (unsigned replica = 0; replica < lesson.replicas; ++replica)
      for (unsigned m = 0; m < microbatches; ++m)
        mlp::fillMask(mask, lesson.rowOf(replica, m), lesson.rowsOf(m),
                      runtime::randomKey(lesson.seed, step, stage, replica * microbatches + m),
                      lesson.dropout);
  }
  const Lesson &lesson;
};

class InOrder {
public:
  InOrder(const Lesson &ofAll, const Program &ofOps, std::vector<double> factors)
      : lesson(ofAll), program(ofOps), lossFactors(std::move(factors)) {
    for (unsigned stage = 0; stage < lesson.stages; ++stage)
      layers.push_back(lesson.layer(stage));
  }

  /// One step: every device runs until its next op lacks something, in turn.
  void run(uint64_t step) {
    const std::size_t pairs = std::size_t{program.stages} * program.microbatches;
    outputs.assign(pairs, {}), gradients.assign(pairs, {}), states.assign(pairs, {}), read.assign(pairs, 0);
    versions.assign(program.stages, {});
    for (unsigned stage = 0; stage < program.stages; ++stage)
      versions[stage].push_back(layers[stage].weights);
    hasContribution.assign(program.stages, false);
    std::vector<uint32_t> next(program.deviceBegin.begin(), program.deviceBegin.end() - 1);
    for (bool moves = true; moves;) {
      moves = false;
      for (uint32_t device = 0; device < program.devices; ++device)
        for (; next[device] < program.deviceBegin[device + 1] && carryOut(next[device], step); ++next[device])
          moves = true;
    }
    for (uint32_t device = 0; device < program.devices; ++device)
      if (next[device] != program.deviceBegin[device + 1])
        throw std::logic_error("the program does not run to its end");
    for (unsigned stage = 0; stage < program.stages; ++stage)
      layers[stage].weights = versions[stage].back();
  }
  std::vector<mlp::Layer> layers; ///< Newest weights, and the gradient of the last update.

private:
  // False: it lacks an input.
  bool carryOut(uint32_t id, uint64_t step) {
    const Op &op = program.ops[id];
    const std::size_t pair = std::size_t{op.stage} * program.microbatches + op.microbatch;
    mlp::Layer &layer = layers[op.stage];
    if (op.kind == OpKind::Forward) {
      Matrix input;
      if (op.stage == 0)
        lesson.fillInput(input, lesson.firstRow[op.microbatch], lesson.rowsOf(op.microbatch));
      else if (outputs[pair - program.microbatches].values.empty())
        return false;
      else
        input = outputs[pair - program.microbatches];
      read[pair] = versionOf(id);
      layer.weights = versions[op.stage].at(read[pair]);
      lesson.drawMask(states[pair].mask, op.stage, input.rows,
                      runtime::randomKey(lesson.seed, step, op.stage, op.microbatch));
      layer.forward(input, outputs[pair], states[pair]);
      return true;
    }
    if (op.kind == OpKind::Backward) {
      Matrix gradient;
      if (op.stage + 1u == program.stages) {
        const std::size_t rows = lesson.rowsOf(op.microbatch);
        mlp::crossEntropy(outputs[pair], lesson.classesOf(lesson.firstRow[op.microbatch], rows),
                          lossFactors[op.microbatch] / static_cast<double>(rows), gradient);
      } else if (gradients[pair + program.microbatches].values.empty()) {
        return false;
      } else {
        gradient = gradients[pair + program.microbatches];
      }
      if (!hasContribution[op.stage])
        layer.clearGradient();
      hasContribution[op.stage] = true;
      layer.weights = versions[op.stage].at(read[pair]);
      layer.backward(gradient, states[pair], gradients[pair]);
      return true;
    }
    if (op.kind != OpKind::Update)
      throw std::logic_error("an op that this training does not know: " + str(op));
    layer.weights = versions[op.stage].back();
    layer.descend(lesson.rate);
    versions[op.stage].push_back(layer.weights);
    hasContribution[op.stage] = false;
    return true;
  }
  /// Of a forward: the version it names, else the newest.
  std::size_t versionOf(uint32_t id) const {
    for (const NamedVersion &named : program.namedVersions)
      if (named.op == id)
        return named.version;
    return versions[program.ops[id].stage].size() - 1;
  }

  const Lesson &lesson;
  const Program &program;
  const std::vector<double> lossFactors;
  std::vector<Matrix> outputs, gradients;    // per stage and microbatch
  std::vector<mlp::LayerState> states;       // per stage and microbatch
  std::vector<std::size_t> read;             // the version that each forward has read
  std::vector<std::vector<Matrix>> versions; // per stage, by number
  std::vector<bool> hasContribution;
};

} // namespace sluice::test
