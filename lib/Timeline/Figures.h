// All figures of docs/figures.md for one schedule, modeled on its timeline and exact. Times are in
// CostModel::unit (`inBaseUnits` turns them into ticks or nanoseconds), sizes in bytes, ratios plain.
#pragma once

#include "Timeline/ClosedForms.h"
#include "Timeline/CriticalPath.h"
#include "Timeline/Idle.h"
#include "Timeline/Memory.h"

namespace sluice {

enum class FigureUnit : uint8_t { Time, Ratio, Size, Count, Rate };
enum class FigureArity : uint8_t { Schedule, Device, Stage };

struct FigureInfo {
  llvm::StringRef name;
  FigureUnit unit;
  FigureArity arity; ///< What its index counts.
};
/// In the order of the page: those of the schedule, of a device, of a stage.
llvm::ArrayRef<FigureInfo> allFigures();
/// Null if there is no such figure.
const FigureInfo *findFigure(llvm::StringRef name);

struct Figures {
  Rational unit = 1; ///< CostModel::unit.
  int64_t makespan = 0;
  int64_t transferExposed = 0; ///< Makespan less the one with free transfers.
  Rational ideal, bubbleTime;
  /// Nothing where the denominator is 0: no op takes time.
  std::optional<Rational> overheadRatio, idleFraction, utilization, spanBubbleRate;
  std::optional<Rational> throughput; ///< Samples of all replicas per unit of time.
  int64_t transfers = 0, bytesMoved = 0;
  std::vector<DeviceTimes> times;
  MemoryFigures memory;
  VersionFigures versions; ///< Of a synchronous schedule: no staleness, one version.
  CriticalSummary critical;
  ClosedForms closed;
  /// Figures that have no value and the setting each lacks (`batch`), as finding 114 names it.
  std::map<std::string, std::string, std::less<>> missing;

  /// Times in CostModel::unit, rates per unit. Without an index a figure of a device or stage is the most
  /// over all of them. Nothing if the figure is unknown, missing, or has no such index.
  std::optional<Rational> value(llvm::StringRef name, std::optional<uint32_t> index = std::nullopt) const;
  /// The same in ticks or nanoseconds, as expressions of a file count.
  std::optional<Rational> valueInBaseUnits(llvm::StringRef name,
                                           std::optional<uint32_t> index = std::nullopt) const;
  /// What the figure lacks; empty if it has a value.
  llvm::StringRef missingSetting(llvm::StringRef name) const;
};

/// Nothing if a figure leaves 64 bits, which is finding 106.
std::optional<Figures> computeFigures(const Program &program, const ProgramIndex &index,
                                      const CostModel &costs, const Timeline &timeline,
                                      Diagnostics &diagnostics);

/// A time in CostModel::unit as ticks or nanoseconds; nothing on overflow.
std::optional<Rational> inBaseUnits(const CostModel &costs, const Rational &time);
/// A time in CostModel::unit as text: `13 ms`, `11 ticks`.
std::string formatUnits(const CostModel &costs, const Rational &time);

} // namespace sluice
