#include "Timeline/Figures.h"

#include "Timeline/Slack.h"
#include "Timeline/Steady.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

namespace {

bool takesNoTime(llvm::ArrayRef<int64_t> times) {
  return llvm::all_of(times, [](int64_t time) { return time == 0; });
}
bool isFree(const StageTable<int64_t> &table) { return takesNoTime(table.all()); }

/// The same costs with transfers, collectives and moves to and from the host that take no time.
CostModel withoutTransfers(const CostModel &costs) {
  auto free = [](int64_t) { return int64_t(0); };
  CostModel local = costs;
  for (StageTable<int64_t> *table :
       {&local.activationTransfer, &local.gradientTransfer, &local.offload, &local.reload})
    *table = table->mapped(free);
  for (std::vector<int64_t> *list : {&local.reduce, &local.unshard, &local.reduceTied})
    list->clear();
  local.skipTransfer.clear();
  local.skipRoute.clear();
  local.activationRoute = local.gradientRoute = {};
  local.routes.clear();
  local.hostRoutes.clear();
  local.laneCount = 0;
  return local;
}

int64_t makespanWithoutTransfers(const Program &program, const ProgramIndex &index, const CostModel &costs,
                                 const Timeline &timeline, Diagnostics &diagnostics) {
  if (isFree(costs.activationTransfer) && isFree(costs.gradientTransfer) && isFree(costs.offload) &&
      isFree(costs.reload) && llvm::all_of(costs.skipTransfer, isFree) && takesNoTime(costs.reduce) &&
      takesNoTime(costs.unshard) && takesNoTime(costs.reduceTied))
    return timeline.makespan;
  // It neither sticks nor overflows where the one with transfers did not.
  return simulate(program, index, withoutTransfers(costs), diagnostics)->makespan;
}

/// Counts what crosses between the devices of stage `s` and the next, which no microbatch changes.
bool countUniform(const Program &program, const ProgramIndex &index, const CostModel &costs, uint32_t s,
                  Figures &figures) {
  if (program.microbatches == 0 || program.deviceOf(s, 0) == program.deviceOf(s + 1, 0))
    return true;
  int64_t crossings = 0;
  for (uint32_t m = 0; m < program.microbatches; ++m) {
    crossings += index.forward(s, m) != noOp && index.forward(s + 1, m) != noOp;
    crossings += index.backward(s, m) != noOp && index.backward(s + 1, m) != noOp;
  }
  int64_t bytes = 0;
  figures.transfers += crossings;
  return !__builtin_mul_overflow(crossings, costs.boundary.at(s, 0), &bytes) &&
         !__builtin_add_overflow(figures.bytesMoved, bytes, &figures.bytesMoved);
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
  const bool isUniform = program.placement.rowCount() == 1 && costs.boundary.rowCount() <= 1;
  for (uint32_t s = 0; s + 1 < program.stages; ++s) {
    if (isUniform) {
      fits &= countUniform(program, index, costs, s, figures);
      continue;
    }
    for (uint32_t m = 0; m < program.microbatches; ++m) {
      if (index.forward(s, m) != noOp && index.forward(s + 1, m) != noOp)
        count(s, s + 1, m, costs.boundary.at(s, m));
      if (index.backward(s, m) != noOp && index.backward(s + 1, m) != noOp)
        count(s + 1, s, m, costs.boundary.at(s, m));
    }
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

bool isNotCounted(const CostModel &costs, llvm::StringRef setting) {
  return costs.isDefault || llvm::is_contained(costs.notCounted, setting);
}

/// Counts what goes to host memory; false on overflow.
bool countOffloads(const Program &program, const CostModel &costs, Figures &figures) {
  bool fits = true;
  for (const Op &op : program.ops)
    if (op.kind == OpKind::Offload && !op.isWait()) {
      if (isNotCounted(costs, "activation"))
        figures.missing["bytes_offloaded"] = "`activation`";
      fits &= !__builtin_add_overflow(figures.bytesOffloaded, costs.activation.at(op.stage, op.microbatch),
                                      &figures.bytesOffloaded);
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

/// False if its throughput leaves 64 bits.
bool addSteady(const Program &program, const CostModel &costs, const std::optional<Steady> &steady,
               Figures &figures) {
  figures.missing["steady_period"] = figures.missing["steady_microbatches"] =
      figures.missing["steady_throughput"] = "a block of ops that repeats in order and time";
  if (!steady || !isWhole(program, *steady))
    return true;
  const uint32_t microbatches = steady->blocks.microbatches / program.sequenceSplits;
  figures.steadyPeriod = steady->period;
  figures.steadyMicrobatches = microbatches;
  figures.steadyBlocks = fewestBlocks(*steady);
  figures.missing.erase("steady_period");
  figures.missing.erase("steady_microbatches");
  const auto samples = samplesOf(costs);
  const bool areSame = llvm::all_of(costs.samples, [&](int64_t count) { return count == costs.samples[0]; });
  if (!samples || !areSame) {
    figures.missing["steady_throughput"] = "`batch` or `microbatch_samples`";
    return true;
  }
  figures.missing.erase("steady_throughput");
  // The samples of all microbatches are those of each times their number.
  const auto share = Rational::make(microbatches, program.wholeMicrobatches());
  const auto ofBlock = share ? multiply(*samples, *share) : std::nullopt;
  figures.steadyThroughput = ofBlock ? divide(*ofBlock, Rational(steady->period)) : std::nullopt;
  return figures.steadyThroughput.has_value();
}

void noteMissing(const CostModel &costs, Figures &figures) {
  if (isNotCounted(costs, "activation"))
    figures.missing["peak_memory"] = figures.missing["headroom"] = "`activation`";
  else if (costs.memoryLimit.empty())
    figures.missing["headroom"] = "`memory` of the cluster";
  if (isNotCounted(costs, "boundary"))
    figures.missing["bytes_moved"] = "`boundary`";
  if (!samplesOf(costs))
    figures.missing["throughput"] = "`batch`, `microbatch_samples` or `samples`";
  figures.missing["sensitivity"] = "to be asked for";
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
  const auto repetition = findRepetition(program);
  const auto steady = repetition ? findSteady(program, timeline, *repetition) : std::nullopt;
  const auto repeated = repeatedParts(program, index, costs, steady);
  const Steady *parts = repeated ? &*repeated : nullptr;
  figures.times = deviceTimes(program, index, costs, timeline, parts);
  figures.busy = busyParts(program, costs, timeline, figures.times);
  const std::vector<CriticalStep> path = criticalPath(program, index, costs, timeline);
  figures.critical = summarize(path);
  figures.makeup = makeupOf(program, index, costs, timeline, path);
  figures.memoryLimit = costs.memoryLimit;
  std::optional<Versions> versions;
  if (costs.asynchronous)
    versions = versionsOf(program);
  figures.versions = versions ? versionFigures(program, *versions)
                              : VersionFigures{std::vector<uint32_t>(program.stages),
                                               std::vector<uint32_t>(program.stages, 1)};
  auto memory =
      memoryFigures(program, index, costs, timeline, diagnostics, versions ? &*versions : nullptr, parts);
  if (!memory)
    return std::nullopt;
  figures.memory = std::move(*memory);
  if (!addSteady(program, costs, steady, figures) || !countTransfers(program, index, costs, figures) ||
      !countOffloads(program, costs, figures) || !computeRatios(costs, figures)) {
    diagnostics.report(
        Rule::ValueOutOfRange, program.span,
        {{"what", fmt::format("a figure of {} overflows 64 bits as an exact fraction", program.name)}});
    return std::nullopt;
  }
  noteMissing(costs, figures);
  figures.closed = closedForms(program, costs, figures);
  return figures;
}

void addDetails(Figures &figures, const Program &program, const ProgramIndex &index, const CostModel &costs,
                const Timeline &timeline, const FigureDetails &details) {
  if (details.links)
    figures.links = linkTraffic(program, index, costs);
  if (details.slack)
    figures.slack = slacks(program, index, costs, timeline);
  if (!details.sensitivity)
    return;
  figures.sensitivity = sensitivities(program, index, costs, timeline, figures.makeup);
  if (figures.sensitivity)
    figures.missing.erase("sensitivity");
  else
    figures.missing["sensitivity"] = "times of which a hundredth fits 64 bits";
}

} // namespace sluice
