// The figures of docs/figures.md that follow from when the ops of a step ran, by the same definitions as
// those of the timeline. What follows from program order alone (peaks, versions, transfers) is not among
// them: it is the same in both.
#pragma once

#include "Measured/Steps.h"
#include "Timeline/Figures.h"

namespace sluice {

struct DeviceRun {
  int64_t useful = 0;
  /// compute, recompute, update, collectives, transfers, host: the parts of busy, as busyPartNames has them.
  int64_t parts[6] = {};
  int64_t fill = 0, drain = 0;
  int64_t spanBegin = 0, spanEnd = 0; ///< First compute begin to last compute end.
  int64_t busy() const;
};

/// Times in the unit of the measurement.
struct RunFigures {
  int64_t makespan = 0;
  std::vector<DeviceRun> devices;
  std::vector<int64_t> inFlight; ///< Per stage.
  std::optional<Rational> samples;

  /// Of one step. A joint op is busy for as long as on the member that came last: the rest is waiting.
  /// `predicted` gives the samples that throughput counts.
  RunFigures(const Measurement &measurement, const StepRun &run, const Figures &predicted);

  /// As Figures::value; nothing for figures that no run gives.
  std::optional<Rational> value(llvm::StringRef name, std::optional<uint32_t> index = std::nullopt) const;
};

/// Names of the figures that value() knows, in the order of docs/figures.md, and `gaps(d)`: what is idle and
/// neither fill nor drain.
llvm::ArrayRef<FigureInfo> runFigures();
/// A predicted figure in the unit of the measurement.
std::optional<Rational> predictedFigure(const Measurement &measurement, const Figures &figures,
                                        const FigureInfo &figure,
                                        std::optional<uint32_t> index = std::nullopt);

/// How long an op held its device: of a joint op no longer than on the member that came last.
std::vector<int64_t> ownDurations(const Program &program, const StepRun &run);

} // namespace sluice
