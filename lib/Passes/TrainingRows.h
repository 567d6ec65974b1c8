// What training adds to the rows of a device: scales of accumulators (LossFactors.h), weights that reductions
// drop, and which contributions are the first and the last of an accumulator.
//
// A scale stands in front of the first reduction behind an update, or without one of the norm or the update;
// under `scale = reduced` behind the reduction, but for accumulators whose reduction copies its result or of
// which a tied weight is a part: in front it does the same and reaches all.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"
#include "Passes/LossFactors.h"

#include <map>

namespace sluice {

class TrainingRows {
public:
  /// Keeps references to all three.
  TrainingRows(const Program &program, const CostModel &costs, const LossScales &scales);

  void beginDevice(uint32_t device);
  /// The number of a factor in `factors`, which has each once.
  uint32_t factor(const Fraction &factor);
  uint32_t factor(const Rational &value) { return factor(Fraction{value.num, value.den}); }
  std::vector<Fraction> factors;

  using Rows = std::vector<runtime::Instruction>;
  /// `op` contributes in the row of that number.
  void contribution(const Op &op, size_t row) {
    if (op.overwrites())
      overwriting.push_back(row);
  }
  /// An unshard or reshard.
  void gather(const Op &op);
  void beforeReduction(uint32_t stage, Rows &rows);
  /// `op` is the reduction or its wait.
  void afterReduction(const Op &op, Rows &rows);
  void beforeNorm(uint32_t stage, Rows &rows);
  void beforeUpdate(uint32_t stage, Rows &rows);
  /// Sets FirstContribution and LastContribution on all rows of the device.
  void flagContributions(Rows &rows) const;

private:
  void scale(uint32_t stage, Rows &rows);

  const Program &program;
  const CostModel &costs;
  const LossScales &scales;
  bool hasZero = false, hasOverwrite = false, hasUpdate = false;
  std::vector<bool> scalesBehind; // per stage; empty: none does
  std::map<std::pair<int64_t, int64_t>, uint32_t> numberOf;
  // Of the device at hand, per stage:
  std::vector<uint32_t> updates;   // made; where there are scales
  std::vector<bool> isScaled;      // since then
  std::vector<bool> isGathered;    // where reductions drop weights
  std::vector<size_t> overwriting; // rows
};

} // namespace sluice
