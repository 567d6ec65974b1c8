#include "Support/Decimal.h"

#include <cstdlib>

namespace sluice {

std::optional<Rational> parseDecimal(llvm::StringRef digits) {
  auto [mantissa, exponentText] = digits.split(digits.contains('e') ? 'e' : 'E');
  int exponent = 0;
  if (!exponentText.empty() && exponentText.ltrim('+').getAsInteger(10, exponent))
    return std::nullopt;
  auto [whole, fraction] = mantissa.split('.');
  fraction = fraction.rtrim('0');
  exponent -= static_cast<int>(fraction.size());
  std::string allDigits = whole.str() + fraction.str();
  if (exponent > 18 || exponent < -18)
    return std::nullopt;
  int64_t value = 0;
  if (llvm::StringRef(allDigits).getAsInteger(10, value))
    return std::nullopt;
  __int128 scale = 1;
  for (int i = 0; i < std::abs(exponent); ++i)
    scale *= 10;
  return exponent >= 0 ? Rational::make(value * scale, 1) : Rational::make(value, scale);
}

} // namespace sluice
