// Rows for intervals that may lie on each other: each takes the first row that is free.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace sluice {

class Packing {
public:
  /// The row of [begin, end], from 0 on; calls ascend by `begin`. No more rows than lie on each other at
  /// once. Logarithmic in them.
  unsigned place(int64_t begin, int64_t end) {
    for (; !taken.empty() && taken.top().first <= begin; taken.pop())
      free.push(taken.top().second);
    if (free.empty())
      free.push(count++);
    const unsigned row = free.top();
    free.pop();
    taken.push({end, row});
    return row;
  }
  unsigned rows() const { return count; }

private:
  template <typename T> using Lowest = std::priority_queue<T, std::vector<T>, std::greater<T>>;
  Lowest<std::pair<int64_t, unsigned>> taken; // by end
  Lowest<unsigned> free;
  unsigned count = 0;
};

} // namespace sluice
