// Two settings of a schedule beside each other: where the programs of the devices first differ, and what that
// does to the figures.
#pragma once

#include "Driver/Compilation.h"

namespace sluice::tool {

/// The first op of a device that is not the same; noOp: the program has ended, or there is no such device.
struct OpDifference {
  uint32_t device = 0;
  uint32_t position = 0; ///< In the device's program, from 0.
  OpId before = noOp, after = noOp;
};

/// A figure of the whole schedule, or the most over its devices or stages. Times and rates are in
/// nanoseconds or ticks.
struct FigureChange {
  const FigureInfo *figure = nullptr;
  std::optional<Rational> before, after;
  /// (after - before) / before; nothing where one is missing, their units differ or `before` is 0.
  std::optional<Rational> relative;
  bool isComparable = true; ///< Not of a time in ticks with one in seconds.
  bool isWorse = false;     ///< Of a figure that has a good and a bad direction.

  bool isSame() const { return isComparable && before == after; }
  /// Worse by more than this part of `before`.
  bool isWorseBeyond(const Rational &tolerance) const {
    return isWorse && (!relative || *relative > tolerance || *relative < *multiply(tolerance, -1));
  }
};

struct Difference {
  const Instance *before = nullptr, *after = nullptr;
  std::vector<OpDifference> ops; ///< One a device, ascending.
  /// All ops are the same, but what the schedule says beside them is not (versions, buffers, placement).
  bool hasOtherSettings = false;
  std::vector<FigureChange> figures; ///< Empty if one side has none.

  bool hasSameOps() const { return ops.empty() && !hasOtherSettings; }
};

Difference compare(const Instance &before, const Instance &after);

/// For people, ended by '\n'; the paths are what the files were called by. Ops only if `withOps`.
std::string differenceText(const Difference &difference, const SourceManager &oldSources,
                           const SourceManager &newSources, const std::string &oldPath,
                           const std::string &newPath, bool withOps);
/// The document of `--format json`, ended by '\n'; the same bytes for the same input.
std::string differenceJson(llvm::ArrayRef<Difference> differences, const SourceManager &oldSources,
                           const SourceManager &newSources);

} // namespace sluice::tool
