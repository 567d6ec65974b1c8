// The columns in which rows of an executor's table are compared, and the periods they may repeat with.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <sluice/Schedule.h>

#include <array>
#include <limits>
#include <vector>

namespace sluice {

/// Operands of all pools under one numbering, and what else a row is as a hash.
struct RowColumns {
  static constexpr uint32_t none = ~0u;
  explicit RowColumns(llvm::ArrayRef<runtime::Instruction> rows);

  uint32_t size() const { return static_cast<uint32_t>(shapes.size()); }
  uint32_t operandCount() const { return poolBegin.back(); }
  /// The pool that an operand counts in.
  runtime::Pool poolOf(uint32_t operand) const;

  std::vector<uint64_t> shapes; ///< Op, flags, stage, which operands there are, and those that never move.
  std::vector<uint32_t> microbatches;
  std::vector<std::array<uint32_t, 4>> operands; ///< Numbered over all pools; none: none, or never moves.
  std::array<uint32_t, runtime::poolCount + 1> poolBegin{};
};

/// Distances at which the same rows come again, ascending: those found most often, for windows of several
/// lengths.
std::vector<uint32_t> likelyPeriods(const RowColumns &columns);

/// The longest stretch from a row on in which each row equals the one `period` behind it, up to one step of
/// microbatches and one map of operands. Grows to the left.
class PeriodWindow {
public:
  PeriodWindow(const RowColumns &columns, uint32_t period);

  /// Moves the left end to `begin`, one further left than it was.
  void extend(uint32_t begin);
  uint32_t period() const { return distance; }
  /// How often the rows at the left end stand behind each other.
  uint32_t times() const { return (end - begin) / distance + 1; }

private:
  bool fits(uint32_t row) const;
  bool conflicts(uint32_t row) const;
  void count(uint32_t row, bool isAdded);

  const RowColumns &columns;
  uint32_t distance, begin, end; // rows [begin, end) fit the ones behind them
  int64_t step = 0;
  uint32_t steps = 0;                  // rows with a microbatch
  std::vector<uint32_t> targets, uses; // by operand
};

} // namespace sluice
