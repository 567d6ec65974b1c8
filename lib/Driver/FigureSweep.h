// `sluice sweep`: figures of every schedule at every setting under one invariant, and where each change of
// the time per sample comes from. A setting that a `require`, the invariant or an error rules out keeps its
// row, with the reason. The rows do not depend on the number of threads.
#pragma once

#include "Driver/Hold.h"
#include "Driver/Sweep.h"
#include "Emit/SweepTable.h"

namespace sluice {

struct FigureSweepOptions {
  std::vector<SweepColumn> columns; ///< Beside the standard ones.
  std::optional<SweepColumn> sort;  ///< Nothing: in the order of the settings.
  bool descends = false;            ///< The largest first.
  bool fitsOnly = false;            ///< Leaves out what does not fit; what is refused stays.
  unsigned threads = 0;             ///< 0: as many as the machine runs at once.
  std::function<void(size_t)> progress = {};
};

struct FigureSweep {
  SweepTable table;
  size_t ran = 0;        ///< Rows with figures, before any was left out.
  bool knowsFit = false; ///< Whether it is known of some row if it fits.
  /// What was found on the way, but for failed `require`s and batches that do not divide: their rows say it.
  std::vector<Finding> findings;
};

/// `makespan`, `busy(2)`; nothing if there is no such figure.
std::optional<SweepColumn> sweepColumn(llvm::StringRef text);
/// Whether more of a figure is better, so that a table sorted by it begins with the most.
bool isBetterHigh(const SweepColumn &column);

/// `settings` is a product as parseDefinitions gives it, and not empty.
FigureSweep sweepFigures(const Compilation &compilation, llvm::ArrayRef<Setting> settings,
                         const CompileOptions &options, const Hold &hold, const FigureSweepOptions &how);

} // namespace sluice
