// Dimensions and the units that spell them. A quantity is a Rational in base units (nanoseconds, bytes)
// with a Dimension; `50 GB/s` is 50 bytes a nanosecond. Plain numbers have no dimension; where a file
// uses no time unit they count ticks.
#pragma once

#include "Support/Rational.h"

#include "llvm/ADT/StringRef.h"

namespace sluice {

/// Powers of the base units: time is {1, 0}, size {0, 1}, bandwidth {-1, 1}, a rate {-1, 0}.
struct Dimension {
  int8_t time = 0;
  int8_t size = 0;

  bool isNone() const { return time == 0 && size == 0; }
  friend bool operator==(Dimension, Dimension) = default;
  /// `time`, `size`, `bandwidth`, `rate`, `plain number`, or a product such as `time^2`.
  std::string str() const;
};

inline constexpr Dimension noDimension{0, 0}, timeDimension{1, 0}, sizeDimension{0, 1},
    bandwidthDimension{-1, 1}, rateDimension{-1, 0};

struct Quantity {
  Rational value;
  Dimension dimension;
};

/// One of `unit`, as a quantity (`ms` is 1000000 ns); nothing if `unit` is no unit.
std::optional<Quantity> unitNamed(llvm::StringRef unit);

/// A value as a person writes it: `13 ms`, `406.06 ms`, `80 GiB`, `50 GB/s`, `3/8`. Values of time and
/// size that no unit shows in six decimals are rounded.
std::string format(const Quantity &quantity);
/// Nanoseconds as `406.06 ms`.
std::string formatTime(const Rational &nanoseconds);
/// Bytes as `3 GiB`, or in powers of 1000 where that is exact and the other is not.
std::string formatSize(const Rational &bytes);

} // namespace sluice
