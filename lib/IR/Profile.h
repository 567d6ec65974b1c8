// Measured times: what an op took at some numbers of samples, for `cost from "profile.json"`. Between two
// measured points time is a straight line, outside them the line through the nearest two goes on, never below
// 0; all in exact fractions. docs/profiles.md describes the file.
#pragma once

#include "Support/Rational.h"
#include "Support/Source.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// Times of one op on one stage, or on all that have no curve of their own.
struct ProfileCurve {
  struct Point {
    Rational samples, time; ///< Nanoseconds.
  };
  /// By samples, ascending; at least one. A curve that names no samples has one point, which holds for all.
  std::vector<Point> points;
  bool namesSamples = true;
  Span span;

  bool covers(const Rational &samples) const {
    return !namesSamples || (points.front().samples <= samples && samples <= points.back().samples);
  }
  /// Nothing if the value does not fit 64 bits.
  std::optional<Rational> at(const Rational &samples) const;
};

struct ProfileOp {
  std::map<uint32_t, ProfileCurve> ofStage;
  std::optional<ProfileCurve> others; ///< Of the stages not named.

  bool isMeasured() const { return others || !ofStage.empty(); }
  /// Null where nothing was measured.
  const ProfileCurve *find(uint32_t stage) const;
};

struct Profile {
  std::string path;           ///< As the schedule file writes it.
  std::string unit;           ///< Of its times: `us`.
  std::vector<ProfileOp> ops; ///< In the order of profileOps().
};

/// Ops that a profile may measure, by the names of their settings in a model. The last two, `update` and
/// `reduce`, belong to no microbatch and have one time each.
llvm::ArrayRef<llvm::StringRef> profileOps();
inline constexpr size_t profileOpsOfMicrobatches = 5;

} // namespace sluice
