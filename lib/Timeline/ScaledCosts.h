// The costs of a model with one part of them a hundredth less, in a unit in which that is exact.
// inSmallerUnit is for all; the class is private to lib/Timeline.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"

namespace sluice {

/// The same costs with every time counted in a unit `factor` times smaller; nothing if one leaves 64 bits.
std::optional<CostModel> inSmallerUnit(const CostModel &costs, int64_t factor);

class ScaledCosts {
public:
  /// Keeps references. What it multiplies by is 100, or 200 where overlaps of two stages have a time of their
  /// own.
  ScaledCosts(const Program &program, const CostModel &costs);

  int64_t factor() const { return multiple; }
  /// Whether every time stays within 64 bits.
  bool fits() const { return fits_; }
  /// Links that take time, ascending; noLink for messages without one.
  std::vector<uint32_t> links() const;
  bool hasCollectives() const;

  CostModel withFasterStage(uint32_t stage) const;
  CostModel withFasterLink(uint32_t link) const;
  CostModel withFasterCollectives() const;

private:
  uint32_t linkOf(uint32_t route) const { return route == noRoute ? noLink : costs.routes[route].link; }
  int64_t faster(int64_t time) const { return time / 100 * 99; } // of a multiplied time
  template <typename IsFaster>
  StageTable<int64_t> hastened(const StageTable<int64_t> &times, IsFaster isFaster) const;
  StageTable<int64_t> overLink(const StageTable<int64_t> &times, const StageTable<uint32_t> &routes,
                               uint32_t link) const;
  bool hostIsFaster(uint32_t stage, uint32_t microbatch, bool isBack, uint32_t link) const;

  const Program &program;
  const CostModel &costs;
  int64_t multiple = 100;
  bool fits_ = true;
  CostModel scaled; // all times multiplied
};

} // namespace sluice
