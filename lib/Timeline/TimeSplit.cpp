#include "Timeline/TimeSplit.h"

namespace sluice {

namespace {

/// Of all devices, in CostModel::unit; each device's time fits 64 bits, their sum need not.
struct Work {
  __int128 compute = 0, updates = 0;
};

Work workOf(const Program &program, const CostModel &costs) {
  Work work;
  for (OpId first = 0, end; first < program.size(); first = end) {
    const Op &op = program.ops[first];
    const bool isOverlap = op.has(OverlapFirst);
    end = isOverlap ? program.groupEnd(first) : first + 1;
    if (isOverlap || op.isCompute())
      work.compute += durationOfGroup(costs, &op, end - first);
    else if (op.kind == OpKind::Update && !costs.update.empty())
      work.updates += costs.update[op.stage];
  }
  return work;
}

} // namespace

std::optional<TimeSplit> timePerSample(const Program &program, const CostModel &costs,
                                       const Figures &figures) {
  if (!costs.batch || *costs.batch < 1)
    return std::nullopt;
  const auto devices = static_cast<__int128>(program.devices);
  const __int128 samples = devices * *costs.batch;
  const Work work = workOf(program, costs);
  const __int128 kernel = work.compute + work.updates;
  const __int128 free = devices * (static_cast<__int128>(figures.makespan) - figures.transferExposed);
  const __int128 parts[] = {devices * figures.makespan, kernel, free - kernel,
                            devices * figures.transferExposed};
  TimeSplit split;
  Rational *results[] = {&split.total, &split.kernel, &split.bubble, &split.transfer};
  for (size_t i = 0; i < std::size(parts); ++i) {
    auto units = Rational::make(parts[i], samples);
    auto time = units ? multiply(*units, costs.unit) : units;
    if (!time)
      return std::nullopt;
    *results[i] = *time;
  }
  return split;
}

std::optional<TimeSplit> changeOf(const TimeSplit &from, const TimeSplit &to) {
  auto total = subtract(to.total, from.total), kernel = subtract(to.kernel, from.kernel),
       bubble = subtract(to.bubble, from.bubble), transfer = subtract(to.transfer, from.transfer);
  if (!total || !kernel || !bubble || !transfer)
    return std::nullopt;
  return TimeSplit{*total, *kernel, *bubble, *transfer};
}

std::optional<Rational> computePerMicrobatch(const Program &program, const CostModel &costs) {
  auto units = Rational::make(workOf(program, costs).compute, std::max(program.wholeMicrobatches(), 1u));
  return units ? multiply(*units, costs.unit) : units;
}

} // namespace sluice
