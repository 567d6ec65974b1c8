// Slots of one class, reused in the order they were freed; a pool grows only when none is free. What an op
// gives back is free when the op has ended, or the overlap that it belongs to.
#pragma once

#include <sluice/Schedule.h>

#include <deque>
#include <numeric>
#include <utility>
#include <vector>

namespace sluice {

class SlotPool {
public:
  SlotPool() = default;
  /// With so many slots from the start.
  explicit SlotPool(uint32_t count) : count(count), free(count) { std::iota(free.begin(), free.end(), 0u); }
  uint32_t take() {
    if (free.empty())
      return count++;
    const uint32_t slot = free.front();
    free.pop_front();
    return slot;
  }
  /// Forgets `slot`, which is free from the next `giveBack` on. noSlot: nothing.
  void release(uint32_t &slot) {
    if (slot != runtime::noSlot)
      released.push_back(std::exchange(slot, runtime::noSlot));
  }
  void giveBack() {
    if (released.empty())
      return;
    for (const uint32_t slot : released)
      free.push_back(slot);
    released.clear();
  }
  uint32_t size() const { return count; }

private:
  uint32_t count = 0;
  std::deque<uint32_t> free;
  std::vector<uint32_t> released;
};

} // namespace sluice
