// The slots of each device while `tighten` moves ops between them, and the activations held behind each
// slot. Private to lib/Passes.
#pragma once

#include "IR/Program.h"

namespace sluice {

class SlotGrid {
public:
  static constexpr OpId freeSlot = noOp, secondSlot = noOp - 1; ///< What stands in a slot beside ops.

  /// `order`: the ops of each device by slot; `slotOf`: per op; a whole backward fills `wholeWidth` slots.
  /// `fillsWeights`: weight halves are not in `order`; each free slot runs one that is pending.
  SlotGrid(const Program &program, const std::vector<std::vector<OpId>> &order, std::vector<uint32_t> slotOf,
           unsigned wholeWidth, bool fillsWeights);

  uint32_t slotCount() const { return slots; }
  OpId at(uint32_t device, uint32_t slot) const {
    return slot < grid[device].size() ? grid[device][slot] : freeSlot;
  }
  uint32_t slotOf(OpId op) const { return begin[op]; }
  uint32_t endOf(OpId op) const { return begin[op] + width(op); }
  const std::vector<uint32_t> &allSlots() const { return begin; }
  /// Moves `op` to the first free slot from `earliest` on, if there is one before its own and no slot then
  /// holds more than any held at first.
  void pull(uint32_t device, OpId op, uint32_t earliest);
  /// The ops of each device by slot.
  std::vector<std::vector<OpId>> order() const;

private:
  unsigned width(OpId op) const { return program.ops[op].kind == OpKind::Backward ? wholeWidth : 1; }
  struct State {
    int64_t held = 0;    ///< Activations saved or half done.
    int64_t pending = 0; ///< Weight halves that free slots are to run.
    bool operator==(const State &) const = default;
  };
  /// The state behind a slot with this in it.
  State behind(State state, OpId content) const;
  bool fits(uint32_t device, OpId op, uint32_t slot);

  const Program &program;
  std::vector<uint32_t> begin; ///< First slot of each op.
  unsigned wholeWidth;
  bool fillsWeights;
  uint32_t slots = 0;
  int64_t limit = 0;
  std::vector<std::vector<OpId>> grid;
  std::vector<std::vector<State>> states; ///< Behind each slot.
  std::vector<State> trial;
};

} // namespace sluice
