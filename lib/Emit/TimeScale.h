// From times to columns of a chart, and the axis above it. Private to lib/Emit.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"
#include "Timeline/Simulate.h"

namespace sluice {

/// Maps [from, to] of CostModel::unit onto columns. Where all ops begin and end on a common grain that is no
/// finer than a column, columns are whole parts of it and widths are exactly proportional; else every edge
/// is rounded to the nearest column.
class TimeScale {
public:
  TimeScale(const Program &program, const CostModel &costs, const Timeline &timeline, int64_t from,
            int64_t to, unsigned width);

  int64_t from() const { return begin; }
  int64_t to() const { return end; }
  unsigned columns() const { return count; }
  /// Nearest column edge, 0 to columns(), of a time in [from, to].
  unsigned edge(int64_t time) const;
  /// Time of one column, in CostModel::unit.
  Rational column() const;
  /// Two lines: times, and marks where they are.
  std::string axis(const CostModel &costs, unsigned indent, bool ascii) const;

private:
  int64_t begin, end;
  unsigned count;
};

} // namespace sluice
