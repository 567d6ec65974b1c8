// 810 overlapped-cost: a fused forward and backward takes at least as long as the longer of the two, and at
// most as long as both. Where they differ between microbatches, the widest range counts.
#include "Elaborate/CostEvaluator.h"

#include "Support/Words.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

/// Least and most of a stage over the microbatches.
static std::pair<Rational, Rational> extremes(const StageTable<Rational> &table, uint32_t stage) {
  std::pair<Rational, Rational> result{table.inRow(0, stage), table.inRow(0, stage)};
  for (uint32_t row = 1; row < table.rowCount(); ++row) {
    const Rational time = table.inRow(row, stage);
    result = {std::min(result.first, time), std::max(result.second, time)};
  }
  return result;
}

void CostEvaluator::checkOverlapped(const CheckedSetting &of, llvm::ArrayRef<StagePair> pairs,
                                    const std::map<StagePair, Rational> &times) {
  Finding *reported = nullptr;
  unsigned others = 0;
  auto shown = [&](const Rational &time) { return firstTime.isValid() ? formatTime(time) : time.str(); };
  for (const StagePair &pair : pairs) {
    const auto forwards = extremes(forward, pair.first), backwards = extremes(backward, pair.second);
    const Rational longest = std::max(forwards.first, backwards.first);
    const auto sum = add(forwards.second, backwards.second);
    const Rational time = times.at(pair);
    if (!sum || (time >= longest && time <= *sum))
      continue;
    if (reported) {
      ++others;
      continue;
    }
    reported = &diagnostics.report(Rule::OverlappedCost, of.span,
                                   {{"forward", std::to_string(pair.first)},
                                    {"backward", std::to_string(pair.second)},
                                    {"time", shown(time)},
                                    {"longest", shown(longest)},
                                    {"sum", shown(*sum)}});
    reported->fix.message = fmt::format(
        "a time from {} to {}: the longest member, and all one after the other", shown(longest), shown(*sum));
  }
  if (others > 0)
    reported->notes.push_back(
        {fmt::format("the same holds for {}", counted(others, "further pair", "further pairs")), {}, {}, ""});
}

/// No overlap of the schedule uses the setting. A few pairs that one device could fuse are looked at; one
/// that has no value is no finding, as nobody asks for it.
void CostEvaluator::checkUnusedOverlaps(const CheckedSetting &of) {
  constexpr size_t mostPairs = 64;
  if (hasOverlaps || program.microbatches == 0 || program.placement.empty() || backward.empty())
    return;
  const Span tick = firstTick, time = firstTime;
  std::vector<StagePair> pairs;
  std::map<StagePair, Rational> times;
  const size_t before = diagnostics.findings().size();
  for (uint32_t s = 0; s < std::min<uint32_t>(program.stages, mostPairs) && !failed; ++s)
    for (uint32_t t = 0; t < program.stages && pairs.size() < mostPairs && !failed; ++t) {
      if (program.deviceOf(s, 0) != program.deviceOf(t, 0))
        continue;
      Value arguments[] = {Value::of(Rational(s)), Value::of(Rational(t))};
      auto found = value(of, arguments, timeDimension);
      if (!found)
        break;
      pairs.push_back({s, t});
      times[pairs.back()] = *found;
    }
  const bool isKnown = diagnostics.findings().size() == before;
  diagnostics.findings().erase(diagnostics.findings().begin() + static_cast<std::ptrdiff_t>(before),
                               diagnostics.findings().end());
  failed = false;
  if (isKnown)
    checkOverlapped(of, pairs, times);
  firstTick = tick;
  firstTime = time;
}

} // namespace sluice
