// All figures of docs/figures.md for one schedule, modeled on its timeline and exact. Times are in
// CostModel::unit (`inBaseUnits` turns them into ticks or nanoseconds), sizes in bytes, ratios plain.
#pragma once

#include "Timeline/BusyParts.h"
#include "Timeline/ClosedForms.h"
#include "Timeline/LinkTraffic.h"
#include "Timeline/Makeup.h"
#include "Timeline/Memory.h"
#include "Timeline/Sensitivity.h"

namespace sluice {

enum class FigureUnit : uint8_t { Time, Ratio, Size, Count, Rate };
enum class FigureArity : uint8_t { Schedule, Device, Stage };

struct FigureInfo {
  llvm::StringRef name;
  FigureUnit unit;
  FigureArity arity;    ///< What its index counts.
  bool isLeast = false; ///< Without an index the least over all of them, not the most.
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
  int64_t bytesOffloaded = 0; ///< To host memory.
  /// Of the steady state; nothing where there is none, or a block of it is not all the work of its
  /// microbatches.
  std::optional<Rational> steadyPeriod, steadyMicrobatches, steadyThroughput;
  uint64_t steadyBlocks = 0; ///< How often it repeats on the device where it does least often.
  std::vector<DeviceTimes> times;
  std::vector<BusyParts> busy;
  MemoryFigures memory;
  std::vector<int64_t> memoryLimit; ///< CostModel::memoryLimit.
  VersionFigures versions;          ///< Of a synchronous schedule: no staleness, one version.
  CriticalSummary critical;
  Makeup makeup; ///< Of the critical path.
  ClosedForms closed;
  /// What only some outputs show; filled in by addDetails.
  std::vector<LinkTraffic> links;
  std::optional<Sensitivity> sensitivity;
  std::vector<int64_t> slack; ///< Per op, as slacks() gives it.
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
  /// What is left of the memory of a device at its peak, in bytes; below 0 it does not fit. Nothing where the
  /// file gives no limit or no `activation`.
  std::optional<int64_t> headroom(uint32_t device) const;
  /// Whether every device has room for its peak; nothing where that is not known.
  std::optional<bool> fits() const;
};

/// Nothing if a figure leaves 64 bits, which is finding 106.
std::optional<Figures> computeFigures(const Program &program, const ProgramIndex &index,
                                      const CostModel &costs, const Timeline &timeline,
                                      Diagnostics &diagnostics);

struct FigureDetails {
  bool links = false, sensitivity = false, slack = false;
};
/// Adds what takes longer or is long, as far as it is asked for. Sensitivities whose times would leave 64
/// bits stay missing.
void addDetails(Figures &figures, const Program &program, const ProgramIndex &index, const CostModel &costs,
                const Timeline &timeline, const FigureDetails &details);

/// A time in CostModel::unit as ticks or nanoseconds; nothing on overflow.
std::optional<Rational> inBaseUnits(const CostModel &costs, const Rational &time);
/// A time in CostModel::unit as text: `13 ms`, `11 ticks`.
std::string formatUnits(const CostModel &costs, const Rational &time);

} // namespace sluice
