#include "Measured/RunFigures.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

namespace sluice {

using enum FigureUnit;
using enum FigureArity;

static constexpr FigureInfo infos[] = {
    {"makespan", Time, Schedule},
    {"ideal", Time, Schedule},
    {"bubble_time", Time, Schedule},
    {"overhead_ratio", Ratio, Schedule},
    {"idle_fraction", Ratio, Schedule},
    {"utilization", Ratio, Schedule},
    {"throughput", Rate, Schedule},
    {"span_bubble_rate", Ratio, Schedule},
    {"busy", Time, FigureArity::Device},
    {"useful", Time, FigureArity::Device},
    {"idle", Time, FigureArity::Device},
    {"busy_compute", Time, FigureArity::Device},
    {"busy_recompute", Time, FigureArity::Device},
    {"busy_update", Time, FigureArity::Device},
    {"busy_collectives", Time, FigureArity::Device},
    {"busy_transfers", Time, FigureArity::Device},
    {"busy_host", Time, FigureArity::Device},
    {"fill", Time, FigureArity::Device},
    {"drain", Time, FigureArity::Device},
    {"gaps", Time, FigureArity::Device},
    {"in_flight", Count, Stage},
};
llvm::ArrayRef<FigureInfo> runFigures() { return infos; }

static constexpr llvm::StringRef partNames[] = {"busy_compute",     "busy_recompute", "busy_update",
                                                "busy_collectives", "busy_transfers", "busy_host"};

int64_t DeviceRun::busy() const {
  int64_t sum = 0;
  for (int64_t part : parts)
    sum += part;
  return sum;
}

/// Into DeviceRun::parts; below 0: it takes no time of its device.
static int partOf(const CostModel &costs, const Op &op) {
  if (op.isStarted() || op.isWait())
    return -1;
  switch (op.kind) {
  case OpKind::Recompute:
    return 1;
  case OpKind::Update:
    return 2;
  case OpKind::Reduce:
  case OpKind::ReduceTied:
  case OpKind::Unshard:
    return 3;
  case OpKind::Offload:
  case OpKind::Reload:
    return 5;
  default:
    if (op.isCompute())
      return 0;
    return op.isCommunication() && costs.transfersBlock ? 4 : -1;
  }
}

std::vector<int64_t> ownDurations(const Program &program, const StepRun &run) {
  std::vector<int64_t> durations(program.size(), 0);
  std::map<std::tuple<OpKind, uint32_t, uint32_t>, int64_t> shortest; // by kind, stage or weight, and number
  std::vector<std::pair<OpId, int64_t *>> joint;
  for (uint32_t device = 0; device < program.devices; ++device) {
    std::map<std::pair<OpKind, uint32_t>, uint32_t> numbers;
    for (OpId op = program.deviceBegin[device]; op < program.deviceBegin[device + 1]; ++op) {
      if (!run.has(op))
        continue;
      durations[op] = run.duration(op);
      const Op &one = program.ops[op];
      if (one.isStarted() || one.isWait() || (one.kind != OpKind::Reduce && one.kind != OpKind::ReduceTied))
        continue;
      const uint32_t which = one.kind == OpKind::Reduce ? one.stage : one.microbatch;
      const uint32_t number = numbers[{one.kind, which}]++;
      int64_t &least = shortest.try_emplace({one.kind, which, number}, durations[op]).first->second;
      least = std::min(least, durations[op]);
      joint.push_back({op, &least});
    }
  }
  for (auto [op, least] : joint)
    durations[op] = *least;
  return durations;
}

/// Most microbatches between the begin of their forward and the end of what ends them, on one device.
static std::vector<int64_t> inFlightOf(const Measurement &measurement, const StepRun &run) {
  const Program &program = measurement.program;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<std::pair<int64_t, int>>> changes; // by stage, device
  for (uint32_t device = 0; device < program.devices; ++device)
    for (OpId op = program.deviceBegin[device]; op < program.deviceBegin[device + 1]; ++op) {
      const Op &one = program.ops[op];
      if (one.kind != OpKind::Forward || !run.has(op))
        continue;
      const OpId last = measurement.index.contribution(one.stage, one.microbatch);
      if (last == noOp || !run.has(last))
        continue;
      auto &of = changes[{one.stage, device}];
      of.push_back({run.begin[op], 1});
      of.push_back({run.end[last], -1});
    }
  std::vector<int64_t> most(program.stages, 0);
  for (auto &[where, of] : changes) {
    llvm::sort(of); // at one moment ends before begins
    int64_t now = 0;
    for (auto [time, change] : of)
      most[where.first] = std::max(most[where.first], now += change);
  }
  return most;
}

RunFigures::RunFigures(const Measurement &measurement, const StepRun &run, const Figures &predicted)
    : makespan(run.makespan()), devices(measurement.program.devices), inFlight(inFlightOf(measurement, run)) {
  const Program &program = measurement.program;
  if (predicted.throughput)
    samples = multiply(*predicted.throughput, Rational(predicted.makespan));
  const std::vector<int64_t> durations = ownDurations(program, run);
  for (uint32_t device = 0; device < program.devices; ++device) {
    DeviceRun &own = devices[device];
    int64_t busyBefore = 0, busyBehind = 0, covered = INT64_MIN;
    bool computes = false;
    for (OpId op = program.deviceBegin[device]; op < program.deviceBegin[device + 1]; ++op) {
      const Op &one = program.ops[op];
      const int part = partOf(measurement.costs, one);
      if (!run.has(op) || part < 0)
        continue;
      if (one.isCompute()) {
        own.spanBegin = computes ? own.spanBegin : run.begin[op];
        own.spanEnd = run.end[op];
        computes = true;
        busyBehind = 0;
      }
      // Members of an overlap that was timed as one lie at the same time.
      const int64_t length = std::min(durations[op], run.end[op] - std::max(run.begin[op], covered));
      covered = std::max(covered, run.end[op]);
      if (length <= 0)
        continue;
      own.parts[part] += length;
      own.useful += part == 0 ? length : 0;
      if (!one.isCompute())
        (computes ? busyBehind : busyBefore) += length;
    }
    own.fill = computes ? own.spanBegin - run.first - busyBefore : makespan - own.busy();
    own.drain = computes ? run.last - own.spanEnd - busyBehind : 0;
  }
}

std::optional<Rational> RunFigures::value(llvm::StringRef name, std::optional<uint32_t> index) const {
  if (name == "in_flight") {
    if (index)
      return *index < inFlight.size() ? std::optional(Rational(inFlight[*index])) : std::nullopt;
    return inFlight.empty() ? std::nullopt : std::optional(Rational(*llvm::max_element(inFlight)));
  }
  auto ofDevice = [&](const DeviceRun &device) -> std::optional<int64_t> {
    if (name == "busy")
      return device.busy();
    if (name == "useful")
      return device.useful;
    if (name == "idle")
      return makespan - device.busy();
    if (name == "fill")
      return device.fill;
    if (name == "drain")
      return device.drain;
    if (name == "gaps")
      return makespan - device.busy() - device.fill - device.drain;
    const auto *part = llvm::find(partNames, name);
    return part == std::end(partNames) ? std::nullopt : std::optional(device.parts[part - partNames]);
  };
  if (devices.empty())
    return std::nullopt;
  if (auto first = ofDevice(devices[index && *index < devices.size() ? *index : 0])) {
    for (size_t device = 1; device < devices.size() && !index; ++device)
      first = std::max(*first, *ofDevice(devices[device]));
    return Rational(*first);
  }
  Rational busy, useful;
  int64_t longest = 0, most = 0;
  for (const DeviceRun &device : devices) {
    busy.num += device.busy();
    useful.num += device.useful;
    longest = std::max(longest, device.spanEnd - device.spanBegin);
    most = std::max(most, device.busy());
  }
  const Rational count(static_cast<int64_t>(devices.size())), whole(makespan);
  const auto ideal = divide(busy, count);
  const auto bubble = ideal ? subtract(whole, *ideal) : std::nullopt;
  if (name == "makespan")
    return whole;
  if (name == "ideal")
    return ideal;
  if (name == "bubble_time")
    return bubble;
  if (name == "overhead_ratio")
    return bubble && ideal ? divide(*bubble, *ideal) : std::nullopt;
  if (name == "idle_fraction")
    return bubble ? divide(*bubble, whole) : std::nullopt;
  if (name == "utilization") {
    const auto mean = divide(useful, count);
    return mean ? divide(*mean, whole) : std::nullopt;
  }
  if (name == "throughput")
    return samples ? divide(*samples, whole) : std::nullopt;
  if (name == "span_bubble_rate")
    return divide(Rational(longest - most), Rational(longest));
  return std::nullopt;
}

std::optional<Rational> predictedFigure(const Measurement &measurement, const Figures &figures,
                                        const FigureInfo &figure, std::optional<uint32_t> index) {
  std::optional<Rational> value;
  if (figure.name == "gaps") {
    auto sumOf = [&](uint32_t device) {
      const DeviceTimes &times = figures.times[device];
      return Rational(times.stallTransfer + times.imbalance + times.stallUpstream);
    };
    for (uint32_t device = 0; device < figures.times.size(); ++device)
      if (!index || *index == device)
        value = std::max(value.value_or(Rational(0)), sumOf(device));
  } else {
    value = figures.value(figure.name, index);
  }
  const auto scale = divide(figures.unit, measurement.costs.unit);
  if (!value || !scale)
    return std::nullopt;
  return figure.unit == Time   ? multiply(*value, *scale)
         : figure.unit == Rate ? divide(*value, *scale)
                               : value;
}

} // namespace sluice
