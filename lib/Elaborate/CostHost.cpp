// Saved activations on their way to host memory and back.
#include "Elaborate/CostEvaluator.h"

#include <fmt/format.h>

namespace sluice {

void CostEvaluator::evaluateHost() {
  if (!isUsed(OpKind::Offload) && !isUsed(OpKind::Reload))
    return;
  if (!file.cluster || !file.cluster->host) {
    costs.notCounted.push_back("offload");
    return;
  }
  const CheckedLink &block = *file.cluster->host;
  const uint32_t link = addLinkKind(block);
  std::vector<Moving> ofDevice;
  for (uint32_t d = 0; d < program.devices; ++d) {
    if (!block.parameters.empty())
      evaluator.set(block.parameters[0], static_cast<int64_t>(d));
    auto found = moving(block);
    if (!found)
      return;
    ofDevice.push_back(*found);
    for (int way = 0; way < 2; ++way) {
      costs.hostRoutes.push_back({link, block.sharing == Sharing::No ? noLane : costs.laneCount++, 0});
      hostLatency.push_back(found->latency);
    }
  }
  const bool isUniform = program.placement.rowCount() == 1 && costs.activation.rowCount() == 1;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Rational>> rows; // by those of placement and activation
  for (uint32_t m = 0; m < (isUniform ? 1 : program.microbatches) && !failed; ++m) {
    auto [entry, isNew] = rows.try_emplace({program.placement.row(m), costs.activation.row(m)});
    std::vector<Rational> &row = entry->second;
    for (uint32_t s = 0; s < program.stages && isNew && !failed; ++s) {
      const uint32_t device = program.deviceOf(s, m);
      auto time = device == noDevice
                      ? std::optional(Rational(0))
                      : timeToMove(ofDevice[device], costs.activation.at(s, m), block.span, [&] {
                          return fmt::format("the time to move the activation of stage {} to the host", s);
                        });
      row.push_back(time.value_or(Rational(0)));
    }
    if (!failed)
      offload.addMicrobatch(row);
  }
  offload.finish();
  reload = offload;
}

} // namespace sluice
