// Exact rationals of 64-bit numerator and denominator, always in lowest terms with a positive
// denominator. Operations that would leave that range return nothing instead of wrapping; the caller
// turns that into an error that names the expression.
#pragma once

#include <cstdint>
#include <numeric>
#include <optional>
#include <string>

namespace sluice {

struct Rational {
  int64_t num = 0;
  int64_t den = 1;

  constexpr Rational() = default;
  constexpr Rational(int64_t integer) : num(integer) {}

  /// The fraction in lowest terms; nothing if `denominator` is 0 or a part does not fit 64 bits.
  static std::optional<Rational> make(__int128 numerator, __int128 denominator);

  bool isInteger() const { return den == 1; }
  /// Largest integer not above the value.
  int64_t floor() const { return num >= 0 || num % den == 0 ? num / den : num / den - 1; }
  int64_t ceil() const { return num <= 0 || num % den == 0 ? num / den : num / den + 1; }
  double toDouble() const { return static_cast<double>(num) / static_cast<double>(den); }
  /// `3/11`, or `3` for an integer.
  std::string str() const;
  /// Decimal text of at most `digits` places after the point, trailing zeros dropped; exact values are
  /// printed whole, others rounded to nearest.
  std::string decimal(unsigned digits = 6) const;

  friend bool operator==(const Rational &, const Rational &) = default;
  friend bool operator<(const Rational &a, const Rational &b) {
    return static_cast<__int128>(a.num) * b.den < static_cast<__int128>(b.num) * a.den;
  }
  friend bool operator>(const Rational &a, const Rational &b) { return b < a; }
  friend bool operator<=(const Rational &a, const Rational &b) { return !(b < a); }
  friend bool operator>=(const Rational &a, const Rational &b) { return !(a < b); }
};

std::optional<Rational> add(const Rational &a, const Rational &b);
std::optional<Rational> subtract(const Rational &a, const Rational &b);
std::optional<Rational> multiply(const Rational &a, const Rational &b);
/// Nothing also when `b` is 0.
std::optional<Rational> divide(const Rational &a, const Rational &b);

} // namespace sluice
