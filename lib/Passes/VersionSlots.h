// Which copy of a stage's weights each op of an asynchronous program reads and each update writes. A copy has
// as many slots as it keeps versions at once (Versions.h); its newest is in slot 0 when a step begins. An
// update whose old version nothing reads any more writes in place.
#pragma once

#include "IR/Program.h"

#include <map>

namespace sluice {

struct VersionSlots {
  std::vector<uint32_t> reads;  ///< Per op that reads weights; of an update: the newest before it.
  std::vector<uint32_t> writes; ///< Per update.
  struct Copy {
    uint32_t count = 1, newest = 0; ///< Slots, and where the newest version is at the end.
  };
  std::map<std::pair<uint32_t, uint32_t>, Copy> copies; ///< By stage and device, those with several slots.

  /// Nothing is said of the copies that have one.
  bool hasSeveral(uint32_t stage, uint32_t device) const {
    return !copies.empty() && copies.contains({stage, device});
  }
};

/// Two passes over the ops of each device.
VersionSlots assignVersions(const Program &program);

} // namespace sluice
