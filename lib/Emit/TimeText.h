// Times as exact decimals, for outputs that other tools read.
#pragma once

#include "IR/CostModel.h"

#include <string>

namespace sluice {

/// A number without loss: `12.5`, or `1/3` where no decimal is equal to it.
std::string exactText(const Rational &value);

/// A time in CostModel::unit as a number of the unit that the file writes (`ms`), or of ticks.
std::string inDisplayUnit(const CostModel &costs, int64_t time);
/// `ms`, `tick`.
std::string displayUnitOf(const CostModel &costs);

/// Times as a trace counts them: microseconds, and a tick as one.
class Microseconds {
public:
  explicit Microseconds(const CostModel &costs);

  /// Whether every text is equal to its time; else it is rounded to nine places.
  bool isExact() const { return exact; }
  std::string at(int64_t time) const { return text(scaled(time), places); }
  /// What `at(end)` is more than `at(begin)`.
  std::string from(int64_t begin, int64_t end) const { return text(scaled(end) - scaled(begin), places); }
  /// Half way from `at(begin)` to `at(end)`.
  std::string middle(int64_t begin, int64_t end) const {
    return text(5 * (scaled(begin) + scaled(end)), places + 1);
  }

private:
  /// In the unit of the last place.
  __int128 scaled(int64_t time) const;
  static std::string text(__int128 scaled, unsigned places);

  Rational unit = 1; // of CostModel::unit, in microseconds
  int64_t grain = 1; // 10 to the power of `places`
  unsigned places = 0;
  bool exact = true;
};

} // namespace sluice
