// Units that figures are written in: one for JSON and CSV that depends on the file alone, and one that a
// column of many values reads best in.
#pragma once

#include "Timeline/Figures.h"

namespace sluice {

struct FigureScale {
  std::string unit;    ///< `ms`, `1/s`, `B`, `1`, `tick`, `1/tick`.
  Rational factor = 1; ///< Of one base unit (tick, nanosecond, byte), in `unit`.

  /// A value in base units, scaled; nothing if that leaves 64 bits.
  std::optional<Rational> of(const Rational &base) const { return multiply(base, factor); }
};

/// Times in `displayUnit` (CostModel::displayUnit) or ticks, sizes in bytes.
FigureScale fixedScale(FigureUnit kind, bool ticks, llvm::StringRef displayUnit);
/// The unit in which the largest of these values is at least 1; ratios in percent.
FigureScale readableScale(FigureUnit kind, bool ticks, llvm::ArrayRef<Rational> values);

} // namespace sluice
