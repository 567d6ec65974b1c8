// What a sweep found, ready to be written out: a row for each schedule at each setting, figures in columns,
// and of each row how its time per sample came about from that of another. Filled by Driver/FigureSweep.
// Times are ticks or nanoseconds, rates per tick or nanosecond, sizes bytes; all exact.
#pragma once

#include "Timeline/TimeSplit.h"

namespace sluice {

struct SweepColumn {
  std::string figure;            ///< As in docs/figures.md: `makespan`, `busy`.
  std::optional<uint32_t> index; ///< Of `busy(2)`: which device or stage; without it the most of all.
  FigureUnit unit = FigureUnit::Ratio;

  std::string title() const;
};

struct SweepRow {
  std::string schedule;
  std::vector<std::string> values; ///< Of the swept parameters, as a person writes them.
  /// Why there are no figures: what the first error says; empty for a row that has some.
  std::string refused;

  int64_t batch = 0; ///< Samples of a step, over all replicas.
  Rational samples;  ///< Of a microbatch; the mean where they differ.
  int64_t leastSamples = 0, mostSamples = 0;
  std::vector<std::optional<Rational>> figures; ///< Per column; nothing where the file does not give it.
  std::optional<bool> fits;      ///< Into the memory of each device, if sizes and memory are given.
  int64_t headroom = 0;          ///< Bytes that stay free on the fullest device; below 0 what is lacking.
  std::optional<TimeSplit> time; ///< Per sample.
  std::optional<TimeSplit> change;
  std::string against; ///< What `change` compares with: `M=4`; empty: nothing to compare with.
};

struct SweepTable {
  std::string file;
  std::string title;              ///< `one_f_one_b of pipeline.sluice at P=4, swept over M`
  std::vector<std::string> swept; ///< Names of the parameters with several values, else of all given.
  /// Of which a row is compared with the one before it; empty: none has several values.
  std::string comparedAlong;
  bool holdsBatch = true;
  std::string invariant;     ///< What is held, in words: `batch held at 64 samples`.
  std::string meaning;       ///< What a change between rows then says.
  bool ticks = true;         ///< As CostModel.
  std::string displayUnit;   ///< As CostModel.
  bool hasSchedules = false; ///< Rows are of several schedules.
  std::string sortedBy;      ///< In words; empty: in the order of the settings.
  std::vector<SweepColumn> columns;
  std::vector<SweepRow> rows;
  size_t leftOut = 0;             ///< Rows that do not fit, which `--fits` leaves out.
  std::vector<std::string> notes; ///< Sentences on what the figures leave out.
};

/// The figures every table shows.
llvm::ArrayRef<llvm::StringRef> standardFigures();

std::string sweepText(const SweepTable &table);
/// A line a row; times, rates and sizes in the unit that the heading names, as shortest doubles.
std::string sweepCsv(const SweepTable &table);
/// docs/sweeps.md gives the schema.
std::string sweepJson(const SweepTable &table);
/// A plot: throughput, and time per sample in its three parts.
std::string sweepSvg(const SweepTable &table);

} // namespace sluice
