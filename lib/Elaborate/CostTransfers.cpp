// What it takes to move an output or a gradient to the next device.
#include "Elaborate/CostEvaluator.h"

#include <fmt/format.h>

namespace sluice {

std::optional<CostEvaluator::Link> CostEvaluator::link(uint32_t from, uint32_t to) {
  const CheckedSetting *latency = setting(file.cluster, "link.latency");
  const CheckedSetting *bandwidth = setting(file.cluster, "link.bandwidth");
  Link result;
  const std::vector<SlotId> &ends = file.cluster->linkParameters;
  if (ends.size() == 2) {
    evaluator.set(ends[0], static_cast<int64_t>(from));
    evaluator.set(ends[1], static_cast<int64_t>(to));
  }
  if (latency) {
    auto time = value(*latency, {}, timeDimension);
    if (!time)
      return std::nullopt;
    result.latency = *time;
  }
  if (bandwidth) {
    auto speed = value(*bandwidth, {}, bandwidthDimension);
    if (!speed)
      return std::nullopt;
    if (speed->num == 0) {
      diagnostics.report(Rule::ValueOutOfRange, bandwidth->span,
                         {{"what", "a bandwidth of 0 moves nothing"}});
      return fail();
    }
    // Bandwidth counts nanoseconds, so a file in ticks cannot use one.
    if (!firstTime.isValid())
      firstTime = bandwidth->span;
    if (firstTick.isValid()) {
      diagnostics
          .report(
              Rule::UnlikeDimensions, bandwidth->span,
              {{"operation", "use ticks and seconds in one file"}, {"values", "a bandwidth is per second"}})
          .notes.push_back({"ticks are used here", firstTick, {}, {}});
      return fail();
    }
    result.timePerByte = *divide(Rational(1), *speed);
  }
  return result;
}

void CostEvaluator::evaluateTransfers() {
  const CheckedSetting *declared = setting(file.cluster, "link");
  activationTransfer = gradientTransfer = zeros();
  if (!declared) {
    skipTransfer.assign(program.skips.size(), Rationals(std::vector<Rational>(2)));
    return;
  }
  costs.declaredAt["link"] = declared->span;
  // A latency that is worked out is taken at its word where it is 0, as that of a link within a node.
  const CheckedSetting *latency = setting(file.cluster, "link.latency");
  if (latency && latency->value != noNode && file.code.nodes[latency->value].op != NodeOp::Constant)
    costs.declaredAt["link.latency"] = latency->span;
  std::map<std::pair<uint32_t, uint32_t>, Link> links;
  auto time = [&](uint32_t from, uint32_t to, uint32_t stage, int64_t bytes) -> Rational {
    auto found = links.find({from, to});
    if (found == links.end()) {
      auto made = link(from, to);
      if (!made)
        return 0;
      found = links.emplace(std::make_pair(from, to), *made).first;
    }
    auto moving = multiply(found->second.timePerByte, Rational(bytes));
    auto total = moving ? add(*moving, found->second.latency) : std::nullopt;
    if (total)
      return *total;
    if (!failed)
      diagnostics.report(Rule::ValueOutOfRange, declared->span,
                         {{"what", fmt::format("the transfer time of stage {} overflows", stage)}});
    failed = true;
    return 0;
  };
  // Rows repeat with the rows of placement and boundary, so each pair of those is computed once.
  std::map<std::pair<uint32_t, uint32_t>, std::pair<std::vector<Rational>, std::vector<Rational>>> rows;
  Rationals activations, gradients;
  for (uint32_t m = 0; m < program.microbatches && !failed; ++m) {
    auto [entry, isNew] = rows.try_emplace({program.placement.row(m), costs.boundary.row(m)});
    auto &[activation, gradient] = entry->second;
    if (isNew) {
      activation.assign(program.stages, 0);
      gradient.assign(program.stages, 0);
      for (uint32_t s = 0; s + 1 < program.stages && !failed; ++s) {
        uint32_t here = program.deviceOf(s, m), there = program.deviceOf(s + 1, m);
        if (here == there)
          continue;
        activation[s] = time(here, there, s, costs.boundary.at(s, m));
        gradient[s + 1] = time(there, here, s, costs.boundary.at(s, m));
      }
    }
    activations.addMicrobatch(activation);
    gradients.addMicrobatch(gradient);
  }
  for (size_t i = 0; i < program.skips.size() && !failed; ++i) {
    const SkipEdge &skip = program.skips[i];
    Rationals both;
    for (uint32_t m = 0; m < program.microbatches && !failed; ++m) {
      const uint32_t here = program.deviceOf(skip.from, m), there = program.deviceOf(skip.to, m);
      const int64_t bytes = costs.skipBoundary[i].at(0, m);
      const bool crosses = here != there;
      const bool returns = crosses && skip.hasGradient;
      const std::vector<Rational> row = {crosses ? time(here, there, skip.from, bytes) : Rational(0),
                                         returns ? time(there, here, skip.to, bytes) : Rational(0)};
      both.addMicrobatch(row);
    }
    both.finish();
    skipTransfer.push_back(std::move(both));
  }
  activations.finish();
  gradients.finish();
  activationTransfer = std::move(activations);
  gradientTransfer = std::move(gradients);
}

} // namespace sluice
