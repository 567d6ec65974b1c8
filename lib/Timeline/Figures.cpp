#include "Timeline/Figures.h"

#include "Support/Quantity.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

namespace {

struct Row {
  FigureInfo info;
  std::optional<Rational> (*get)(const Figures &figures, uint32_t index);
};

#define SCHEDULE(name, unit, expression)                                                                     \
  {{name, FigureUnit::unit, FigureArity::Schedule},                                                          \
   [](const Figures &f, uint32_t) -> std::optional<Rational> { return expression; }}
#define DEVICE(name, unit, expression)                                                                       \
  {{name, FigureUnit::unit, FigureArity::Device},                                                            \
   [](const Figures &f, uint32_t d) -> std::optional<Rational> { return Rational(expression); }}
#define STAGE(name, unit, expression)                                                                        \
  {{name, FigureUnit::unit, FigureArity::Stage},                                                             \
   [](const Figures &f, uint32_t s) -> std::optional<Rational> { return Rational(expression); }}

constexpr Row rows[] = {
    SCHEDULE("makespan", Time, f.makespan),
    SCHEDULE("ideal", Time, f.ideal),
    SCHEDULE("bubble_time", Time, f.bubbleTime),
    SCHEDULE("overhead_ratio", Ratio, f.overheadRatio),
    SCHEDULE("idle_fraction", Ratio, f.idleFraction),
    SCHEDULE("utilization", Ratio, f.utilization),
    SCHEDULE("throughput", Rate, f.throughput),
    SCHEDULE("transfer_exposed", Time, f.transferExposed),
    SCHEDULE("span_bubble_rate", Ratio, f.spanBubbleRate),
    SCHEDULE("steady_period", Time, f.steadyPeriod),
    SCHEDULE("steady_microbatches", Count, f.steadyMicrobatches),
    SCHEDULE("steady_throughput", Rate, f.steadyThroughput),
    SCHEDULE("transfers", Count, f.transfers),
    SCHEDULE("bytes_moved", Size, f.bytesMoved),
    SCHEDULE("bytes_offloaded", Size, f.bytesOffloaded),
    DEVICE("busy", Time, f.times[d].busy),
    DEVICE("useful", Time, f.times[d].useful),
    DEVICE("busy_compute", Time, f.busy[d].compute),
    DEVICE("busy_recompute", Time, f.busy[d].recompute),
    DEVICE("busy_update", Time, f.busy[d].update),
    DEVICE("busy_collectives", Time, f.busy[d].collectives),
    DEVICE("busy_transfers", Time, f.busy[d].transfers),
    DEVICE("busy_host", Time, f.busy[d].host),
    DEVICE("idle", Time, f.times[d].idle),
    DEVICE("fill", Time, f.times[d].fill),
    DEVICE("drain", Time, f.times[d].drain),
    DEVICE("stall_transfer", Time, f.times[d].stallTransfer),
    DEVICE("imbalance", Time, f.times[d].imbalance),
    DEVICE("stall_upstream", Time, f.times[d].stallUpstream),
    DEVICE("peak_activation", Count, f.memory.devices[d].peakActivation),
    DEVICE("peak_saved", Count, f.memory.devices[d].peakSaved),
    DEVICE("peak_pending", Count, f.memory.devices[d].peakPending),
    DEVICE("peak_memory", Size, f.memory.devices[d].peakBytes),
    {{"headroom", FigureUnit::Size, FigureArity::Device, /*isLeast=*/true},
     [](const Figures &f, uint32_t d) -> std::optional<Rational> { return f.headroom(d); }},
    STAGE("in_flight", Count, f.memory.inFlight[s]),
    STAGE("staleness", Count, f.versions.staleness[s]),
    STAGE("weight_versions", Count, f.versions.kept[s]),
    STAGE("critical_time", Time, f.makeup.timeOf(s)),
    STAGE("sensitivity", Time, f.sensitivity->stages[s]),
};

#undef SCHEDULE
#undef DEVICE
#undef STAGE

const Row *findRow(llvm::StringRef name) {
  const Row *row = llvm::find_if(rows, [&](const Row &candidate) { return candidate.info.name == name; });
  return row == std::end(rows) ? nullptr : row;
}

} // namespace

llvm::ArrayRef<FigureInfo> allFigures() {
  static const std::vector<FigureInfo> infos = [] {
    std::vector<FigureInfo> result;
    for (const Row &row : rows)
      result.push_back(row.info);
    return result;
  }();
  return infos;
}

const FigureInfo *findFigure(llvm::StringRef name) {
  const Row *row = findRow(name);
  return row ? &row->info : nullptr;
}

std::optional<Rational> Figures::value(llvm::StringRef name, std::optional<uint32_t> index) const {
  const Row *row = findRow(name);
  if (!row || !missingSetting(name).empty())
    return std::nullopt;
  if (row->info.arity == FigureArity::Schedule)
    return index ? std::nullopt : row->get(*this, 0);
  size_t count = row->info.arity == FigureArity::Device ? times.size() : memory.inFlight.size();
  if (index)
    return *index < count ? row->get(*this, *index) : std::nullopt;
  std::optional<Rational> result; // the most, or the least
  for (uint32_t i = 0; i < count; ++i)
    if (auto candidate = row->get(*this, i);
        !result || (row->info.isLeast ? *candidate < *result : *candidate > *result))
      result = candidate;
  return result;
}

std::optional<int64_t> Figures::headroom(uint32_t device) const {
  if (memoryLimit.empty() || !missingSetting("peak_memory").empty())
    return std::nullopt;
  return memoryLimit[device] - memory.devices[device].peakBytes;
}

std::optional<bool> Figures::fits() const {
  for (uint32_t device = 0; device < times.size(); ++device) {
    auto left = headroom(device);
    if (!left)
      return std::nullopt;
    if (*left < 0)
      return false;
  }
  return true;
}

std::optional<Rational> Figures::valueInBaseUnits(llvm::StringRef name, std::optional<uint32_t> index) const {
  auto result = value(name, index);
  if (!result)
    return std::nullopt;
  switch (findFigure(name)->unit) {
  case FigureUnit::Time:
    return multiply(*result, unit);
  case FigureUnit::Rate:
    return divide(*result, unit);
  default:
    return result;
  }
}

llvm::StringRef Figures::missingSetting(llvm::StringRef name) const {
  auto found = missing.find(name);
  return found == missing.end() ? llvm::StringRef() : llvm::StringRef(found->second);
}

std::optional<Rational> inBaseUnits(const CostModel &costs, const Rational &time) {
  return multiply(time, costs.unit);
}

std::string formatUnits(const CostModel &costs, const Rational &time) {
  auto base = inBaseUnits(costs, time);
  if (!base)
    return fmt::format("{} x {} {}", time.str(), costs.unit.str(), costs.ticks ? "ticks" : "ns");
  if (!costs.ticks)
    return formatTime(*base);
  std::string text = 1000 % base->den == 0 ? base->decimal(3) : base->str();
  return fmt::format("{} {}", text, text == "1" ? "tick" : "ticks");
}

} // namespace sluice
