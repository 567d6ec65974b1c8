// How far a check of many settings is: one line of stderr that is written over, from the second second on and
// only on a terminal.
#pragma once

#include <chrono>
#include <cstddef>

namespace sluice::tool {

class Progress {
public:
  explicit Progress(size_t total);

  /// Writes the line if it is time to.
  void show(size_t done);
  /// Takes the line away, if there is one.
  void clear();

private:
  using Clock = std::chrono::steady_clock;
  size_t total;
  bool isTerminal, isShown = false;
  Clock::time_point next; ///< When the line is due.
};

} // namespace sluice::tool
