#include "Support/Quantity.h"

#include "llvm/ADT/StringSwitch.h"

#include <array>
#include <fmt/format.h>

namespace sluice {

namespace {
struct Unit {
  const char *name;
  int64_t factor;
};
constexpr std::array timeUnits = {Unit{"s", 1'000'000'000}, Unit{"ms", 1'000'000}, Unit{"us", 1'000},
                                  Unit{"ns", 1}};
constexpr std::array binaryUnits = {Unit{"TiB", int64_t(1) << 40}, Unit{"GiB", int64_t(1) << 30},
                                    Unit{"MiB", int64_t(1) << 20}, Unit{"KiB", int64_t(1) << 10}};
constexpr std::array decimalUnits = {Unit{"TB", 1'000'000'000'000}, Unit{"GB", 1'000'000'000},
                                     Unit{"MB", 1'000'000}, Unit{"KB", 1'000}};
} // namespace

std::string Dimension::str() const {
  if (isNone())
    return "plain number";
  if (*this == timeDimension)
    return "time";
  if (*this == sizeDimension)
    return "size";
  if (*this == bandwidthDimension)
    return "bandwidth";
  if (*this == rateDimension)
    return "rate";
  std::string text;
  auto append = [&](const char *name, int power) {
    if (power == 0)
      return;
    if (!text.empty())
      text += " x ";
    text += power == 1 ? std::string(name) : fmt::format("{}^{}", name, power);
  };
  append("size", size);
  append("time", time);
  return text;
}

std::optional<Quantity> unitNamed(llvm::StringRef unit) {
  for (const Unit &u : timeUnits)
    if (unit == u.name)
      return Quantity{Rational(u.factor), timeDimension};
  if (unit == "B")
    return Quantity{Rational(1), sizeDimension};
  bool perSecond = unit.consume_back("/s");
  auto found = [&](const Unit &u) {
    return perSecond ? Quantity{*Rational::make(u.factor, 1'000'000'000), bandwidthDimension}
                     : Quantity{Rational(u.factor), sizeDimension};
  };
  if (perSecond && unit == "B")
    return found(Unit{"B", 1});
  for (const Unit &u : binaryUnits)
    if (unit == u.name)
      return found(u);
  for (const Unit &u : decimalUnits)
    if (unit == u.name)
      return found(u);
  return std::nullopt;
}

static bool isShort(const Rational &value) {
  // Exact in at most three decimals.
  return 1000 % value.den == 0;
}

static Rational magnitude(const Rational &value) {
  Rational result = value;
  result.num = value.num < 0 ? -value.num : value.num;
  return result;
}

/// The largest unit of time that leaves at least 1 of it, and how much.
static std::pair<Rational, const char *> inTimeUnit(const Rational &nanoseconds) {
  for (const Unit &unit : timeUnits) {
    auto value = divide(nanoseconds, Rational(unit.factor));
    if (value && (magnitude(*value) >= Rational(1) || (nanoseconds.num == 0 && unit.factor > 1)))
      return {*value, unit.name};
  }
  return {nanoseconds, "ns"};
}

std::string formatTime(const Rational &nanoseconds) {
  auto [value, unit] = inTimeUnit(nanoseconds);
  return fmt::format("{} {}", value.decimal(), unit);
}

std::string formatSize(const Rational &bytes) {
  // The shortest exact text wins, powers of 1024 before powers of 1000; else the largest unit, rounded.
  std::string best = bytes.isInteger() ? bytes.str() + " B" : "";
  auto consider = [&](const Unit &unit) {
    auto value = divide(bytes, Rational(unit.factor));
    if (!value || magnitude(*value) < Rational(1) || !isShort(*value))
      return;
    std::string text = fmt::format("{} {}", value->decimal(3), unit.name);
    if (best.empty() || text.size() < best.size())
      best = text;
  };
  for (const Unit &unit : binaryUnits)
    consider(unit);
  for (const Unit &unit : decimalUnits)
    consider(unit);
  if (!best.empty() && best.size() <= 9)
    return best;
  for (const Unit &unit : binaryUnits)
    if (auto value = divide(bytes, Rational(unit.factor)); value && magnitude(*value) >= Rational(1))
      return fmt::format("{} {}", value->decimal(2), unit.name);
  return bytes.decimal(2) + " B";
}

std::string format(const Quantity &quantity) {
  const auto &[value, dimension] = quantity;
  if (dimension == timeDimension) {
    // A fraction that six decimals do not hold is not passed off as exact.
    bool exact = 1'000'000 % inTimeUnit(value).first.den == 0;
    return (exact ? "" : "about ") + formatTime(value);
  }
  if (dimension == sizeDimension)
    return formatSize(value);
  if (dimension == bandwidthDimension)
    if (auto perSecond = multiply(value, Rational(1'000'000'000)))
      return formatSize(*perSecond) + "/s";
  if (dimension == rateDimension)
    if (auto perSecond = multiply(value, Rational(1'000'000'000)))
      return perSecond->str() + " /s";
  return dimension.isNone() ? value.str() : fmt::format("{} ({})", value.str(), dimension.str());
}

} // namespace sluice
