#include "Timeline/Figures.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

namespace {

StageTable<int64_t> freeTransfers(uint32_t stages) {
  return StageTable<int64_t>(std::vector<int64_t>(stages, 0));
}

bool isFree(const StageTable<int64_t> &transfer) {
  for (uint32_t row = 0; row < transfer.rowCount(); ++row)
    for (uint32_t stage = 0; stage < transfer.stageCount(); ++stage)
      if (transfer.inRow(row, stage) != 0)
        return false;
  return true;
}

int64_t makespanWithoutTransfers(const Program &program, const ProgramIndex &index, const CostModel &costs,
                                 const Timeline &timeline, Diagnostics &diagnostics) {
  if (isFree(costs.activationTransfer) && isFree(costs.gradientTransfer) &&
      llvm::all_of(costs.skipTransfer, isFree))
    return timeline.makespan;
  CostModel local = costs;
  local.skipTransfer.clear();
  local.activationTransfer = local.gradientTransfer = freeTransfers(program.stages);
  // It neither sticks nor overflows where the one with transfers did not.
  return simulate(program, index, local, diagnostics)->makespan;
}

/// Counts what crosses between devices; false on overflow.
bool countTransfers(const Program &program, const ProgramIndex &index, const CostModel &costs,
                    Figures &figures) {
  bool fits = true;
  auto count = [&](uint32_t sender, uint32_t receiver, uint32_t m, int64_t bytes) {
    if (program.deviceOf(sender, m) == program.deviceOf(receiver, m))
      return;
    ++figures.transfers;
    fits &= !__builtin_add_overflow(figures.bytesMoved, bytes, &figures.bytesMoved);
  };
  for (uint32_t s = 0; s + 1 < program.stages; ++s)
    for (uint32_t m = 0; m < program.microbatches; ++m) {
      if (index.forward(s, m) != noOp && index.forward(s + 1, m) != noOp)
        count(s, s + 1, m, costs.boundary.at(s, m));
      if (index.backward(s, m) != noOp && index.backward(s + 1, m) != noOp)
        count(s + 1, s, m, costs.boundary.at(s, m));
    }
  for (size_t i = 0; i < program.skips.size(); ++i)
    for (uint32_t m = 0; m < program.microbatches; ++m) {
      const auto [from, to, hasGradient, span] = program.skips[i];
      const int64_t bytes = i < costs.skipBoundary.size() ? costs.skipBoundary[i].at(0, m) : 0;
      if (index.forward(from, m) != noOp && index.forward(to, m) != noOp)
        count(from, to, m, bytes);
      if (hasGradient && index.backward(from, m) != noOp && index.backward(to, m) != noOp)
        count(to, from, m, bytes);
    }
  return fits;
}

std::optional<Rational> samplesOf(const CostModel &costs) {
  if (costs.batch)
    return Rational(*costs.batch);
  if (costs.samples.empty())
    return std::nullopt;
  __int128 sum = 0;
  for (int64_t samples : costs.samples)
    sum += samples;
  return Rational::make(sum * costs.replicas.value_or(1), 1);
}

// Sums over devices, in 128 bits: each device's time fits 64, their sum need not.
struct Sums {
  __int128 busy = 0, useful = 0;
  int64_t mostBusy = 0, longestSpan = 0;
};
Sums sumUp(const Figures &figures) {
  Sums sums;
  for (const DeviceTimes &times : figures.times) {
    sums.busy += times.busy;
    sums.useful += times.useful;
    sums.mostBusy = std::max(sums.mostBusy, times.busy);
    sums.longestSpan = std::max(sums.longestSpan, times.spanEnd - times.spanBegin);
  }
  return sums;
}

/// False if one leaves 64 bits; figures without a denominator stay empty.
bool computeRatios(const CostModel &costs, Figures &figures) {
  const Sums sums = sumUp(figures);
  const auto devices = static_cast<__int128>(std::max<size_t>(figures.times.size(), 1));
  const __int128 elapsed = devices * figures.makespan;
  bool fits = true;
  auto set = [&](auto &target, __int128 numerator, __int128 denominator) {
    if (denominator == 0)
      return;
    auto ratio = Rational::make(numerator, denominator);
    fits &= ratio.has_value();
    target = ratio.value_or(Rational());
  };
  set(figures.ideal, sums.busy, devices);
  set(figures.bubbleTime, elapsed - sums.busy, devices);
  set(figures.overheadRatio, elapsed - sums.busy, sums.busy);
  set(figures.idleFraction, elapsed - sums.busy, elapsed);
  set(figures.utilization, sums.useful, elapsed);
  set(figures.spanBubbleRate, sums.longestSpan - sums.mostBusy, sums.longestSpan);
  if (auto samples = samplesOf(costs))
    set(figures.throughput, samples->num, figures.makespan);
  return fits;
}

bool isNotCounted(const CostModel &costs, llvm::StringRef setting) {
  return costs.isDefault || llvm::is_contained(costs.notCounted, setting);
}

void noteMissing(const CostModel &costs, Figures &figures) {
  if (isNotCounted(costs, "activation"))
    figures.missing["peak_memory"] = "`activation`";
  if (isNotCounted(costs, "boundary"))
    figures.missing["bytes_moved"] = "`boundary`";
  if (!samplesOf(costs))
    figures.missing["throughput"] = "`batch`, `microbatch_samples` or `samples`";
  for (llvm::StringRef ratio :
       {"overhead_ratio", "idle_fraction", "utilization", "span_bubble_rate", "throughput"})
    if (figures.makespan == 0 || (ratio == "overhead_ratio" && figures.ideal.num == 0))
      figures.missing[ratio.str()] = "a cost above 0";
}

} // namespace

std::optional<Figures> computeFigures(const Program &program, const ProgramIndex &index,
                                      const CostModel &costs, const Timeline &timeline,
                                      Diagnostics &diagnostics) {
  Figures figures;
  figures.unit = costs.unit;
  figures.makespan = timeline.makespan;
  figures.transferExposed =
      timeline.makespan - makespanWithoutTransfers(program, index, costs, timeline, diagnostics);
  figures.times = deviceTimes(program, index, costs, timeline);
  figures.critical = summarize(criticalPath(program, index, costs, timeline));
  std::optional<Versions> versions;
  if (costs.asynchronous)
    versions = versionsOf(program);
  figures.versions = versions ? versionFigures(program, *versions)
                              : VersionFigures{std::vector<uint32_t>(program.stages),
                                               std::vector<uint32_t>(program.stages, 1)};
  auto memory = memoryFigures(program, index, costs, timeline, diagnostics, versions ? &*versions : nullptr);
  if (!memory)
    return std::nullopt;
  figures.memory = std::move(*memory);
  if (!countTransfers(program, index, costs, figures) || !computeRatios(costs, figures)) {
    diagnostics.report(
        Rule::ValueOutOfRange, program.span,
        {{"what", fmt::format("a figure of {} overflows 64 bits as an exact fraction", program.name)}});
    return std::nullopt;
  }
  noteMissing(costs, figures);
  figures.closed = closedForms(program, costs, figures);
  return figures;
}

} // namespace sluice
