// What an expression is worth: an exact number with a dimension, a boolean, a text, a list, or nothing
// (its error has been reported). Trivially copyable; texts and lists are indices into the Evaluator.
#pragma once

#include "Support/Quantity.h"

namespace sluice {

struct Value {
  enum class Kind : uint8_t { Nothing, Number, Boolean, Text, List };

  Rational number; ///< Number. Boolean: 0 or 1. Text, List: an index.
  Kind kind = Kind::Nothing;
  Dimension dimension;

  static Value of(Rational number, Dimension dimension = noDimension) {
    return {number, Kind::Number, dimension};
  }
  static Value of(const Quantity &quantity) { return of(quantity.value, quantity.dimension); }
  static Value boolean(bool value) { return {Rational(value ? 1 : 0), Kind::Boolean, noDimension}; }
  static Value indexed(Kind kind, size_t index) {
    return {Rational(static_cast<int64_t>(index)), kind, noDimension};
  }

  explicit operator bool() const { return kind != Kind::Nothing; }
  bool isNumber() const { return kind == Kind::Number; }
  bool isTrue() const { return kind == Kind::Boolean && number.num != 0; }
  /// A plain whole number, by far the most frequent value.
  bool isPlainInteger() const { return kind == Kind::Number && number.den == 1 && dimension.isNone(); }
  size_t index() const { return static_cast<size_t>(number.num); }
};

/// What a value is, for messages about operations that do not take it: `time`, `list`, `text`.
std::string kindOf(const Value &value);

} // namespace sluice
