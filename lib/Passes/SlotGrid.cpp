#include "Passes/SlotGrid.h"

#include <algorithm>

namespace sluice {

SlotGrid::SlotGrid(const Program &program, const std::vector<std::vector<OpId>> &order,
                   std::vector<uint32_t> slotOf, unsigned wholeWidth, bool fillsWeights)
    : program(program), begin(std::move(slotOf)), wholeWidth(wholeWidth), fillsWeights(fillsWeights),
      grid(order.size()), states(order.size()) {
  for (size_t device = 0; device < order.size(); ++device) {
    std::vector<OpId> &row = grid[device];
    row.assign(order[device].empty() ? 0 : endOf(order[device].back()), freeSlot);
    for (OpId op : order[device]) {
      row[begin[op]] = op;
      for (uint32_t slot = begin[op] + 1; slot < endOf(op); ++slot)
        row[slot] = secondSlot;
    }
    State state;
    for (OpId content : row) {
      state = behind(state, content);
      states[device].push_back(state);
      limit = std::max(limit, state.held);
    }
    slots = std::max(slots, static_cast<uint32_t>(row.size()));
  }
}

SlotGrid::State SlotGrid::behind(State state, OpId content) const {
  if (content == freeSlot) {
    if (fillsWeights && state.pending > 0) {
      --state.pending;
      --state.held;
    }
    return state;
  }
  if (content == secondSlot) { // the end of a whole backward
    --state.held;
    return state;
  }
  switch (program.ops[content].kind) {
  case OpKind::Forward:
    ++state.held;
    break;
  case OpKind::Backward:
    state.held -= wholeWidth == 1;
    break;
  case OpKind::BackwardInput:
    state.pending += fillsWeights;
    break;
  default: // a weight half
    --state.held;
  }
  return state;
}

/// Whether `op` may move to `slot`: from there on the device is followed until it holds what it held
/// before. `trial` then has its states.
bool SlotGrid::fits(uint32_t device, OpId op, uint32_t slot) {
  const std::vector<OpId> &row = grid[device];
  const uint32_t own = begin[op], ownEnd = endOf(op), end = slot + width(op);
  State state = slot == 0 ? State{} : states[device][slot - 1];
  trial.clear();
  for (uint32_t i = slot; i < row.size(); ++i) {
    const OpId content = i == slot ? op : i < end ? secondSlot : i >= own && i < ownEnd ? freeSlot : row[i];
    state = behind(state, content);
    if (state.held > limit)
      return false;
    if (i >= ownEnd && state == states[device][i])
      break;
    trial.push_back(state);
  }
  return true;
}

void SlotGrid::pull(uint32_t device, OpId op, uint32_t earliest) {
  std::vector<OpId> &row = grid[device];
  const uint32_t own = begin[op];
  // A forward holds one more from its slot on: where the device is full, it cannot stand before.
  if (program.ops[op].kind == OpKind::Forward && !fillsWeights) {
    uint32_t first = own;
    while (first > earliest && states[device][first - 1].held < limit)
      --first;
    earliest = first;
  }
  for (uint32_t slot = earliest; slot < own; ++slot) {
    bool isFree = row[slot] == freeSlot;
    for (uint32_t i = slot + 1; i < slot + width(op); ++i)
      isFree &= row[i] == freeSlot || i == own;
    if (!isFree || !fits(device, op, slot))
      continue;
    for (uint32_t i = own; i < endOf(op); ++i)
      row[i] = freeSlot;
    begin[op] = slot;
    row[slot] = op;
    for (uint32_t i = slot + 1; i < endOf(op); ++i)
      row[i] = secondSlot;
    std::copy(trial.begin(), trial.end(), states[device].begin() + slot);
    return;
  }
}

std::vector<std::vector<OpId>> SlotGrid::order() const {
  std::vector<std::vector<OpId>> result(grid.size());
  for (size_t device = 0; device < grid.size(); ++device)
    for (OpId content : grid[device])
      if (content < secondSlot)
        result[device].push_back(content);
  return result;
}

} // namespace sluice
