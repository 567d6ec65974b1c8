// Random schedules for property tests: legal ones, made by carrying out a random execution and writing
// down what each device did, and mutants of them that may be legal or not. Everything follows from the
// seed.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace sluice::slow {

/// Seeded choices that do not depend on the standard library's distributions.
class Random {
public:
  explicit Random(uint64_t seed) : engine(seed) {}
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(engine() % bound); }
  /// In low..high, both included.
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine() % (high - low + 1));
  }
  bool chance(uint32_t percent) { return below(100) < percent; }

private:
  std::mt19937_64 engine;
};

/// A schedule that can still be changed: the steps of each device, a step being one op or an overlap.
struct RandomSchedule {
  uint32_t stages = 0, microbatches = 0, devices = 0;
  std::vector<std::vector<uint32_t>> placement;    ///< Per microbatch, then stage.
  std::vector<std::vector<std::vector<Op>>> steps; ///< Per device.
  CostModel costs;
  std::string mutation; ///< What `mutate` did, in words.

  /// The IR; each op has a site and a made-up span of its own.
  Program build() const;
  /// Sizes, placement, costs and programs, to print when a property fails.
  std::string str() const;
};

/// A legal schedule of up to about 150 ops: any placement, costs per stage or per microbatch, split
/// backwards, recomputation and overlaps.
RandomSchedule randomSchedule(uint64_t seed);

/// `overlap { forward(0, 1); backward(1, 0); }`: one step in words.
std::string str(const std::vector<Op> &step);

/// Changes one thing: an op lost, doubled, moved or exchanged, a device changed, a flag, an overlap made.
void mutate(RandomSchedule &schedule, Random &random);

/// The schedule of given programs with ticks as costs: for hand-written cases.
RandomSchedule emptySchedule(uint32_t stages, uint32_t microbatches, uint32_t devices);

} // namespace sluice::slow
