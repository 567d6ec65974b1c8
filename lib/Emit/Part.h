// The part of a schedule that an output shows: TimedSchedule::part, within bounds.
#pragma once

#include "Emit/TimedSchedule.h"

#include <algorithm>

namespace sluice {

struct Part {
  uint32_t firstDevice, deviceEnd;
  int64_t from, to; ///< In CostModel::unit; to > from.

  explicit Part(const TimedSchedule &schedule)
      : firstDevice(std::min(schedule.part.firstDevice, schedule.program.devices)),
        deviceEnd(std::min(schedule.part.deviceEnd, schedule.program.devices)) {
    const int64_t makespan = schedule.timeline.makespan;
    from = std::clamp<int64_t>(schedule.part.from.value_or(0), 0, makespan);
    to = std::max(std::clamp<int64_t>(schedule.part.to.value_or(makespan), from, makespan), from + 1);
  }
  bool has(uint32_t device) const { return device >= firstDevice && device < deviceEnd; }
  /// Whether some of [begin, end] is shown; what takes no time also at both ends.
  bool meets(int64_t begin, int64_t end) const {
    return begin == end ? begin >= from && begin <= to : end > from && begin < to;
  }
  bool isWhole(const TimedSchedule &schedule) const {
    return firstDevice == 0 && deviceEnd == schedule.program.devices && from == 0 &&
           to >= schedule.timeline.makespan;
  }
};

} // namespace sluice
