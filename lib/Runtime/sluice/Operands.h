// Operands: rows that stand in front of the op they belong to and say what it gets beside its own slots.
#pragma once

#include "StageTypes.h"

#include <span>
#include <vector>

namespace sluice::runtime {

/// Those of the op at hand, collected row by row. Room is taken once.
template <class Boundary, Uses uses> class Operands {
public:
  void reserve(size_t edges) {
    inputs.reserve(edges);
    outputs.reserve(edges);
    inputSlots.reserve(edges);
    outputSlots.reserve(edges);
  }
  void collect(const Instruction &row) {
    switch (row.op) {
    case Op::SkipInput:
      return inputSlots.push_back(row.a);
    case Op::SkipOutput:
      return outputSlots.push_back(row.a);
    case Op::Carry:
      carry = row.a;
      return;
    case Op::Weights:
      weights = row.a;
      return;
    default:
      factor = row.d;
    }
  }
  /// Looks up what is in the slots: `boundary(slot)` waits for what is still under way.
  template <class Find> void find(Find &&boundary) {
    if constexpr (uses.skips) {
      for (uint32_t slot : inputSlots)
        inputs.push_back(&boundary(slot));
      for (uint32_t slot : outputSlots)
        outputs.push_back(&boundary(slot));
    }
  }
  Skips<Boundary> skips() const { return {inputs, outputs}; }
  void forget() {
    if constexpr (uses.skips) {
      inputs.clear();
      outputs.clear();
      inputSlots.clear();
      outputSlots.clear();
    }
    carry = weights = factor = noSlot;
  }

  uint32_t carry = noSlot, weights = noSlot, factor = noSlot; ///< As in their rows.

private:
  std::vector<const Boundary *> inputs;
  std::vector<Boundary *> outputs;
  std::vector<uint32_t> inputSlots, outputSlots;
};

} // namespace sluice::runtime
