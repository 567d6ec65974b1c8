#include "Support/Rational.h"

#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace sluice {

static __int128 greatestCommonDivisor(__int128 a, __int128 b) {
  if (a < 0)
    a = -a;
  if (b < 0)
    b = -b;
  // Most values fit 64 bits, where the division is an order of magnitude cheaper.
  constexpr __int128 max64 = std::numeric_limits<int64_t>::max();
  if (a <= max64 && b <= max64)
    return std::gcd(static_cast<int64_t>(a), static_cast<int64_t>(b));
  while (b != 0) {
    __int128 rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

std::optional<Rational> Rational::make(__int128 numerator, __int128 denominator) {
  if (denominator == 0)
    return std::nullopt;
  if (denominator < 0) {
    numerator = -numerator;
    denominator = -denominator;
  }
  if (denominator != 1) {
    __int128 divisor = greatestCommonDivisor(numerator, denominator);
    numerator /= divisor;
    denominator /= divisor;
  }
  constexpr __int128 max64 = std::numeric_limits<int64_t>::max();
  if (numerator > max64 || numerator < -max64 || denominator > max64)
    return std::nullopt;
  Rational result;
  result.num = static_cast<int64_t>(numerator);
  result.den = static_cast<int64_t>(denominator);
  return result;
}

std::optional<Rational> add(const Rational &a, const Rational &b) {
  __int128 left, right, sum, denominator = static_cast<__int128>(a.den) * b.den;
  left = static_cast<__int128>(a.num) * b.den;
  right = static_cast<__int128>(b.num) * a.den;
  if (__builtin_add_overflow(left, right, &sum))
    return std::nullopt;
  return Rational::make(sum, denominator);
}

std::optional<Rational> subtract(const Rational &a, const Rational &b) {
  Rational negated = b;
  negated.num = -b.num; // never the minimum: `make` keeps values symmetric
  return add(a, negated);
}

std::optional<Rational> multiply(const Rational &a, const Rational &b) {
  return Rational::make(static_cast<__int128>(a.num) * b.num, static_cast<__int128>(a.den) * b.den);
}

std::optional<Rational> divide(const Rational &a, const Rational &b) {
  return Rational::make(static_cast<__int128>(a.num) * b.den, static_cast<__int128>(a.den) * b.num);
}

std::string Rational::str() const { return den == 1 ? std::to_string(num) : fmt::format("{}/{}", num, den); }

std::string Rational::decimal(unsigned digits) const {
  if (den == 1)
    return std::to_string(num);
  bool negative = num < 0;
  unsigned __int128 rest = negative ? -static_cast<__int128>(num) : num;
  unsigned __int128 whole = rest / den;
  rest %= den;
  std::string fraction;
  for (unsigned i = 0; i < digits && rest != 0; ++i) {
    rest *= 10;
    fraction += static_cast<char>('0' + static_cast<int>(rest / den));
    rest %= den;
  }
  if (rest * 2 >= static_cast<unsigned __int128>(den)) { // round half up, carrying
    size_t i = fraction.size();
    while (i > 0 && fraction[i - 1] == '9')
      fraction[--i] = '0';
    if (i > 0)
      ++fraction[i - 1];
    else
      ++whole;
  }
  while (!fraction.empty() && fraction.back() == '0')
    fraction.pop_back();
  std::string text = negative && (whole != 0 || !fraction.empty()) ? "-" : "";
  text += std::to_string(static_cast<uint64_t>(whole));
  return fraction.empty() ? text : text + "." + fraction;
}

} // namespace sluice
