// 118 outside-profile: an op runs at more or fewer samples than its profile measured, so that its time is a
// guess along a straight line.
#include "Elaborate/CostEvaluator.h"

#include "Support/Words.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

/// Times that differ between microbatches by their samples alone: a row for each number of samples.
CostEvaluator::Rationals CostEvaluator::measuredTable(const CheckedSetting &of) {
  std::map<int64_t, std::vector<Rational>> rows;
  Rationals result;
  for (uint32_t m = 0; m < program.microbatches && !failed; ++m) {
    std::vector<Rational> &row = rows[costs.samples[m / program.sequenceSplits]];
    for (uint32_t s = static_cast<uint32_t>(row.size()); s < program.stages && !failed; ++s) {
      Value arguments[] = {Value::of(Rational(s)), Value::of(Rational(m))};
      row.push_back(value(of, arguments, timeDimension).value_or(Rational(0)));
    }
    if (!failed)
      result.addMicrobatch(row);
  }
  result.finish();
  costs.declaredAt[of.name] = of.span;
  return result;
}

void CostEvaluator::checkMeasured() {
  if (!file.profile || failed || program.microbatches == 0)
    return;
  auto given = [&](const char *name) { return setting(file.model, name) != nullptr; };
  const bool halves = isUsed(OpKind::BackwardInput) || isUsed(OpKind::BackwardWeight);
  const bool whole = isUsed(OpKind::Backward);
  const bool isAsked[profileOpsOfMicrobatches] = {
      isUsed(OpKind::Forward),
      whole || (halves && !(given("backward_input") && given("backward_weight"))),
      halves || (whole && !given("backward")),
      halves || (whole && !given("backward")),
      isUsed(OpKind::Recompute),
  };
  for (size_t op = 0; op < profileOpsOfMicrobatches; ++op)
    if (const CheckedSetting *found = setting(file.model, profileOps()[op].str());
        found && found->isMeasured && isAsked[op])
      checkMeasured(*found, op);
}

/// `4 samples`, or `1 to 8 samples`.
static std::string rangeOf(const ProfileCurve &curve) {
  const Rational &first = curve.points.front().samples, &last = curve.points.back().samples;
  return first == last ? fmt::format("{} sample{}", first.str(), first == Rational(1) ? "" : "s")
                       : fmt::format("{} to {} samples", first.str(), last.str());
}

/// One finding for all stages of one range, at the least and at the most samples that leave it.
void CostEvaluator::checkMeasured(const CheckedSetting &of, size_t op) {
  const auto [least, most] = std::minmax_element(costs.samples.begin(), costs.samples.end());
  std::vector<int64_t> ends = costs.samples.empty() ? std::vector<int64_t>{1} : std::vector{*least, *most};
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  struct Outside {
    uint32_t stage;
    const ProfileCurve *curve;
    std::vector<uint32_t> others;
  };
  for (int64_t samples : ends) {
    std::map<std::string, Outside> ranges;
    for (uint32_t s = 0; s < program.stages; ++s) {
      const ProfileCurve *curve = file.profile->ops[op].find(s);
      if (!curve || curve->covers(samples))
        continue;
      auto [entry, isNew] = ranges.try_emplace(rangeOf(*curve), Outside{s, curve, {}});
      if (!isNew)
        entry->second.others.push_back(s);
    }
    for (const auto &[range, outside] : ranges) {
      auto time = outside.curve->at(samples);
      Finding &finding =
          diagnostics.report(Rule::OutsideProfile, of.span,
                             {{"op", fmt::format("{}({})", of.name, outside.stage)},
                              {"samples", counted(static_cast<uint64_t>(samples), "sample", "samples")},
                              {"path", fmt::format("\"{}\"", file.profile->path)},
                              {"measured", range},
                              {"time", time ? formatTime(*time) : "a time"}});
      finding.notes.push_back({outside.curve->points.size() == 1
                                   ? "measured here, at one point: its time is taken"
                                   : "measured here",
                               outside.curve->span,
                               {},
                               {}});
      if (!outside.others.empty())
        finding.notes.push_back(
            {fmt::format("the same holds for {}", listed("stage", "stages", outside.others)), {}, {}, {}});
      finding.fix.message =
          fmt::format("measure {} at {} too, or give {}(s, m) in the model", of.name,
                      counted(static_cast<uint64_t>(samples), "sample", "samples"), of.name);
    }
  }
}

} // namespace sluice
