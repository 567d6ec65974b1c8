// The gradients of the step machine: an accumulator per replica and copy that knows, for every microbatch of
// every replica, with which factor its gradient is in there. Factors weigh the gradient of the sum of the
// microbatch's sample (token) losses. The machine decides when ops run; what they do to gradients is here.
#pragma once

#include "StepMachine.h"

#include <map>
#include <set>

namespace sluice::machine {

Rational times(const Rational &a, const Rational &b);
Rational plus(const Rational &a, const Rational &b);

class Gradients {
public:
  Gradients(const StepProgram &program, std::vector<Wrong> &wrongs);

  /// Some update uses what is added up.
  bool isApplied() const { return hasUpdates; }

  void contribute(uint32_t device, uint32_t step, const Statement &op, const Rational &factor,
                  uint32_t version);
  void zero(uint32_t device, uint32_t step, uint32_t stage);
  void scale(uint32_t device, uint32_t step, const Statement &op);
  /// A joint op stands there: its device hands its accumulators over, until `wait` if it is a start.
  void post(uint32_t device, uint32_t step, const Statement &op);
  void wait(uint32_t device, const Statement &op);
  /// All members are there.
  void reduce(uint32_t stage);
  void reduceTied(uint32_t device, uint32_t step, uint32_t tie);
  void update(uint32_t device, uint32_t step, uint32_t stage, uint32_t versionBefore);
  void endStep(uint32_t device, uint32_t step);

private:
  struct Key {
    uint32_t step, replica, stage, microbatch;
    friend auto operator<=>(const Key &, const Key &) = default;
  };
  struct Entry {
    Rational factor;
    int64_t count = 1; ///< How often it is in there.
    bool isUsed = false, isReduced = false;
    uint32_t version = 0; ///< Of the weights that its forward read.
  };
  using Gradient = std::map<Key, Entry>;
  /// By weight: that of the stage itself (0), and those tied to other stages (1 + tie).
  struct Accumulator {
    std::map<uint32_t, Gradient> weights;
    std::optional<std::map<uint32_t, Gradient>> copied;
    bool isFactored = false, isSharded = false;
  };
  /// One copy of a stage: its replicas do the same.
  struct Copy {
    std::vector<Accumulator> replicas;
    int inFlight = 0;
    bool isReduced = false, isTiedReduced = false, isEmptied = false; ///< In this step.
  };
  struct DeviceStep {
    bool isNormed = false, isNormedLocally = false, isUpdated = false;
  };

  Rational target(uint32_t microbatch) const { return wanted(setting, microbatch); }
  int64_t members(uint32_t stage) const;
  Copy &copy(uint32_t device, uint32_t stage) { return copies.at({device, stage}); }
  std::vector<Copy *> copiesOf(uint32_t stage);
  void wrong(unsigned family, unsigned other, uint32_t device, uint32_t step, std::string what);
  void wrong(uint32_t device, uint32_t step, std::string what) { wrong(5, 5, device, step, std::move(what)); }
  void touch(uint32_t device, uint32_t step, uint32_t stage, const std::string &who);
  void add(uint32_t device, uint32_t step, uint32_t stage, uint32_t weight, const Statement &op, Entry entry);
  void applyFactor(Accumulator &accumulator, uint32_t device, uint32_t step, uint32_t stage);
  void clear(Copy &copy);
  void checkUpdate(const Gradient &gradient, uint32_t device, uint32_t step, uint32_t stage, uint32_t member,
                   uint32_t weight);
  void checkAsynchronousUpdate(const Gradient &gradient, uint32_t device, uint32_t step, uint32_t stage);
  void checkCoverage(uint32_t device, uint32_t step, uint32_t stage);

  const StepProgram &program;
  const Setting &setting;
  std::vector<Wrong> &wrongs;
  uint32_t replicas_ = 1;
  bool hasZero = false, hasUpdates = false;
  std::map<std::pair<uint32_t, uint32_t>, Copy> copies; // by device and stage
  std::vector<DeviceStep> deviceSteps;
};

} // namespace sluice::machine
