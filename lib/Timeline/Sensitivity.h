// How much shorter the step would be if one stage or one link were a hundredth faster: not estimated from the
// critical path, which another chain may replace, but the difference of two timelines. All costs are
// multiplied so that a hundredth less of each is a whole number again.
#pragma once

#include "Timeline/Makeup.h"

namespace sluice {

struct LinkSensitivity {
  uint32_t link = noLink; ///< Into ModelCosts::links; noLink: messages that no link block carries.
  Rational gain;
};

/// Makespan less the makespan with that part at 99/100 of its time. In CostModel::unit.
struct Sensitivity {
  /// Per stage: every compute op and update of it. An overlap of two stages whose time the model gives counts
  /// half to each.
  std::vector<Rational> stages;
  /// Per link that takes time: latency and size ÷ bandwidth of every transfer, to and from the host as well.
  std::vector<LinkSensitivity> links;
  std::optional<Rational> collectives; ///< All together; nothing where none takes time.
};

/// Nothing if a multiplied time leaves 64 bits. Runs the timeline once for each part that may matter, on as
/// many threads as the machine runs at once (`threads` 0): a part that is not on the critical path has gain 0
/// unless messages may pass each other. `makeup` is that of `timeline`.
std::optional<Sensitivity> sensitivities(const Program &program, const ProgramIndex &index,
                                         const CostModel &costs, const Timeline &timeline,
                                         const Makeup &makeup, unsigned threads = 0);

/// Ops to be timed, at most; below `shownUnasked` outputs show sensitivities without being asked.
uint64_t sensitivityWork(const Program &program, const CostModel &costs);
inline constexpr uint64_t shownUnasked = 50'000'000;

} // namespace sluice
