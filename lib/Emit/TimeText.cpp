#include "Emit/TimeText.h"

#include "Support/Quantity.h"

#include <algorithm>

namespace sluice {

/// How many decimals show 1 / `denominator`; nothing if none do.
static std::optional<unsigned> decimalsOf(int64_t denominator) {
  unsigned twos = 0, fives = 0;
  for (; denominator % 2 == 0; denominator /= 2)
    ++twos;
  for (; denominator % 5 == 0; denominator /= 5)
    ++fives;
  return denominator == 1 ? std::optional(std::max(twos, fives)) : std::nullopt;
}

std::string exactText(const Rational &value) {
  auto decimals = decimalsOf(value.den);
  return decimals ? value.decimal(*decimals) : value.str();
}

std::string displayUnitOf(const CostModel &costs) {
  return costs.ticks ? "tick" : costs.displayUnit.empty() ? "ns" : costs.displayUnit;
}

std::string inDisplayUnit(const CostModel &costs, int64_t time) {
  auto base = multiply(Rational(time), costs.unit);
  auto shown = base && !costs.ticks ? divide(*base, unitNamed(displayUnitOf(costs))->value) : base;
  // Beyond 64 bits the number of units, which is exact as well.
  return shown ? exactText(*shown) : std::to_string(time) + "*" + costs.unit.str();
}

Microseconds::Microseconds(const CostModel &costs) {
  const Rational length = costs.ticks ? Rational(1) : divide(Rational(1), Rational(1000)).value();
  if (auto product = multiply(costs.unit, length))
    unit = *product;
  auto decimals = decimalsOf(unit.den);
  exact = decimals && *decimals <= 12;
  places = exact ? *decimals : 9;
  for (unsigned i = 0; i < places; ++i)
    grain *= 10;
}

__int128 Microseconds::scaled(int64_t time) const {
  const __int128 product = static_cast<__int128>(time) * unit.num, whole = product / unit.den;
  const __int128 rest = product % unit.den;
  return whole * grain + (rest * grain + unit.den / 2) / unit.den;
}

std::string Microseconds::text(__int128 scaled, unsigned places) {
  std::string digits;
  bool any = places == 0;
  for (unsigned i = 0; scaled > 0 || i <= places; ++i, scaled /= 10) {
    const char digit = static_cast<char>('0' + static_cast<int>(scaled % 10));
    if (i == places && any && places > 0)
      digits += '.';
    any |= digit != '0';
    if (i >= places || any) // trailing zeros are left out
      digits += digit;
  }
  std::reverse(digits.begin(), digits.end());
  return digits;
}

} // namespace sluice
