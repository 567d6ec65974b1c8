// Random schedules with everything that takes time: links of several kinds with lanes that are shared in
// order or all at once, collectives, updates, moves to and from the host, started or not, skip edges, tied
// weights. Everything follows from the seed.
#pragma once

#include "RandomSchedules.h"

namespace sluice::slow {

struct RandomTiming {
  RandomSchedule schedule; ///< With its costs.
  Program program;         ///< Its communication is inferred.
  /// The schedule, its links and the ops of `any`, to print when a property fails.
  std::string str(const Program &any) const;
};

struct TimingChoice {
  bool sharesLanes = true, skips = true;
};
RandomTiming randomTiming(uint64_t seed, const TimingChoice &choice);

} // namespace sluice::slow
