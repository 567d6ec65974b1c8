#include "Emit/TimeScale.h"

#include "Timeline/Figures.h"

#include <algorithm>
#include <cmath>

namespace sluice {

namespace {

/// Largest time of which every start and end within [from, to] is a multiple, counted from `from`; 0 if it
/// is finer than a `width`-th of the whole.
int64_t commonGrain(const Program &program, const CostModel &costs, const Timeline &timeline, int64_t from,
                    int64_t to, unsigned width) {
  int64_t grain = to - from;
  for (OpId first = 0; first < program.size(); first = program.groupEnd(first)) {
    const int64_t start = timeline.start(program, costs, first), stop = timeline.end[first];
    for (int64_t time : {start, stop})
      if (time > from && time < to)
        grain = std::gcd(grain, time - from);
    if (grain == 0 || (to - from) / grain > width)
      return 0;
  }
  return grain;
}

/// Smallest of 1, 2, 5, 10, 20 ... of the base unit that keeps marks `apart` columns from each other.
int64_t markStep(double basePerColumn, unsigned apart) {
  for (int64_t power = 1; power < INT64_MAX / 100; power *= 10)
    for (int64_t digit : {1, 2, 5})
      if (static_cast<double>(digit * power) >= basePerColumn * apart)
        return digit * power;
  return 0;
}

} // namespace

TimeScale::TimeScale(const Program &program, const CostModel &costs, const Timeline &timeline, int64_t from,
                     int64_t to, unsigned width)
    : begin(from), end(std::max(to, from + 1)), count(std::max(width, 1u)) {
  int64_t grain = commonGrain(program, costs, timeline, begin, end, count);
  if (grain > 0) {
    auto grains = static_cast<unsigned>((end - begin) / grain);
    count = count / grains * grains;
  }
}

unsigned TimeScale::edge(int64_t time) const {
  const __int128 span = end - begin;
  return static_cast<unsigned>((2 * static_cast<__int128>(time - begin) * count + span) / (2 * span));
}

Rational TimeScale::column() const { return *Rational::make(end - begin, count); }

std::string TimeScale::axis(const CostModel &costs, unsigned indent, bool ascii) const {
  std::string labels(indent, ' '), marks(indent, ' ');
  const double unit = costs.unit.toDouble();
  const double first = static_cast<double>(begin) * unit, perColumn = column().toDouble() * unit;
  const int64_t step = markStep(perColumn, costs.ticks ? 6 : 12);
  double next =
      step == 0 ? INFINITY : std::ceil(first / static_cast<double>(step)) * static_cast<double>(step);
  for (unsigned at = 0; at < count; ++at) {
    const bool mark = std::lround((next - first) / perColumn) == static_cast<long>(at);
    marks += mark ? (ascii ? "|" : "┬") : (ascii ? "-" : "─");
    if (!mark)
      continue;
    // Marks are multiples of `step` in base units, so their text is exact.
    auto time = divide(Rational(std::llround(next)), costs.unit);
    std::string text = time ? formatUnits(costs, *time) : "";
    if (costs.ticks)
      text = llvm::StringRef(text).split(' ').first.str();
    const bool free = labels.size() <= indent + at && (at == 0 || at + text.size() <= count);
    if (free)
      labels += std::string(indent + at - labels.size(), ' ') + text + " ";
    next += static_cast<double>(step);
  }
  return llvm::StringRef(labels).rtrim().str() + "\n" + marks + "\n";
}

} // namespace sluice
