// What the variants of a program share: its blocks, places in them, statements to insert. Internal to
// StepVariants.cpp (work and gradients) and StepMessages.cpp (what goes between devices).
#pragma once

#include "StepVariants.h"

#include <algorithm>
#include <functional>

namespace sluice::machine {

inline Statement stageOp(Word word, uint32_t stage) {
  Statement op;
  op.word = word;
  op.stage = stage;
  return op;
}
inline Statement pairOp(Word word, const Statement &of, Prefix prefix = Prefix::None) {
  Statement op = stageOp(word, of.stage);
  op.microbatch = of.microbatch;
  op.prefix = prefix;
  return op;
}
inline Statement prefixed(Statement op, Prefix prefix) {
  op.prefix = prefix;
  return op;
}

using Predicate = std::function<bool(const Statement &)>;

/// The variants of one program, device by device.
struct Variation {
  StepProgram &program;
  Random &random;
  std::string &what;
  Setting &setting = program.setting;
  Blocks blocks = blocksOf(program);

  size_t find(uint32_t device, const Predicate &is, size_t from = 0) const {
    size_t at = from;
    while (at < blocks[device].size() &&
           std::none_of(blocks[device][at].begin(), blocks[device][at].end(), is))
      ++at;
    return at;
  }
  /// Behind the last block before `end` that has such an op; 0 if none has.
  size_t behindLast(uint32_t device, const Predicate &is, size_t end = ~size_t(0)) const {
    size_t at = std::min(end, blocks[device].size());
    while (at > 0 && std::none_of(blocks[device][at - 1].begin(), blocks[device][at - 1].end(), is))
      --at;
    return at;
  }
  void insert(uint32_t device, size_t at, const Statement &op) {
    blocks[device].insert(blocks[device].begin() + static_cast<std::ptrdiff_t>(at), Block{op});
  }
  bool has(const Predicate &is) const {
    for (uint32_t device = 0; device < setting.devices; ++device)
      if (find(device, is) < blocks[device].size())
        return true;
    return false;
  }
  std::vector<uint32_t> stagesOn(uint32_t device) const {
    std::vector<uint32_t> stages;
    for (uint32_t s = 0; s < setting.stages; ++s)
      if (setting.isOn(s, device))
        stages.push_back(s);
    return stages;
  }
  /// Each copy of a stage, by device.
  void forCopies(const std::function<void(uint32_t, uint32_t)> &visit) const {
    for (uint32_t device = 0; device < setting.devices; ++device)
      for (uint32_t stage : stagesOn(device))
        visit(device, stage);
  }
  void note(const char *added) { what += (what.empty() ? "" : ", ") + std::string(added); }
  void finish() { setBlocks(program, blocks); }

  void chooseReplicas();
  void splitBackwards();
  void keepLess();
  void skip();
  bool writeSkip(const Skip &edge);
  std::vector<uint32_t> microbatches(uint32_t device, uint32_t stage, bool isGradient) const;
  void write(uint32_t device, uint32_t stage, uint32_t other, bool isGradient, Word word);
  void tie();
  void chooseLoss();
  void scaleBackwards();
  void scaleAccumulators(const Rational &factor);
  void clearGradients();
  void addNorm();
  void shard();
  void startReductions();
  void groupMessages();
  void changeAsynchronous();
  void startMessages();
  void evaluate();
};

} // namespace sluice::machine
