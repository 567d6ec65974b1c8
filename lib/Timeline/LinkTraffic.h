// What passes over each link of the cluster, and how full its busiest lane is. docs/figures.md has the terms.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"

namespace sluice {

struct LinkTraffic {
  uint32_t link = noLink; ///< Into ModelCosts::links; noLink: messages that no link block carries.
  int64_t transfers = 0, bytes = 0;
  uint32_t lanes = 0; ///< Lanes in use: those of the block, else one for each ordered pair of devices.
  /// On the lane where it is most: size ÷ bandwidth of all its transfers. Of a link that is not shared it may
  /// be more than the makespan. In CostModel::unit.
  int64_t busiest = 0;
};

/// By link, without those that carry nothing. Offloads and reloads are transfers of their `host` block. Of a
/// program whose times fit 64 bits. Linear in the ops.
std::vector<LinkTraffic> linkTraffic(const Program &program, const ProgramIndex &index,
                                     const CostModel &costs);

} // namespace sluice
