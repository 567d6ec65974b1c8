#include "Emit/FigureScale.h"

#include "Support/Quantity.h"

#include <algorithm>

namespace sluice {

static FigureScale inUnit(llvm::StringRef unit) {
  return {unit.str(), *divide(Rational(1), unitNamed(unit)->value)};
}

FigureScale fixedScale(FigureUnit kind, bool ticks, llvm::StringRef displayUnit) {
  switch (kind) {
  case FigureUnit::Time:
    return ticks ? FigureScale{"tick", 1} : inUnit(displayUnit.empty() ? "ns" : displayUnit);
  case FigureUnit::Rate:
    return ticks ? FigureScale{"1/tick", 1} : FigureScale{"1/s", 1'000'000'000};
  case FigureUnit::Size:
    return {"B", 1};
  default:
    return {"1", 1};
  }
}

FigureScale readableScale(FigureUnit kind, bool ticks, llvm::ArrayRef<Rational> values) {
  if (kind == FigureUnit::Ratio)
    return {"%", 100};
  const bool hasSteps = kind == FigureUnit::Size || (kind == FigureUnit::Time && !ticks);
  if (!hasSteps)
    return fixedScale(kind, ticks, "");
  Rational largest = 0;
  for (const Rational &value : values)
    largest = std::max(largest, value.num < 0 ? *subtract(Rational(0), value) : value);
  static constexpr llvm::StringRef times[] = {"s", "ms", "us", "ns"}, sizes[] = {"TiB", "GiB", "MiB", "KiB"};
  for (llvm::StringRef unit : kind == FigureUnit::Size ? llvm::ArrayRef(sizes) : llvm::ArrayRef(times))
    if (unitNamed(unit)->value <= largest)
      return inUnit(unit);
  return kind == FigureUnit::Size ? FigureScale{"B", 1} : FigureScale{"ns", 1};
}

} // namespace sluice
