// One schedule with its timeline and figures: what every output of `simulate` and every picture is made from.
#pragma once

#include "Emit/Chart.h"

namespace sluice {

struct TimedSchedule {
  const Program &program; ///< The one that runs: Instance::timed().
  const ProgramIndex &index;
  const CostModel &costs;
  const Timeline &timeline;
  const Figures &figures;
  std::vector<std::pair<std::string, std::string>> parameters = {}; ///< In the order to print.
  ChartOptions part = {};                                           ///< What to show, and how on a terminal.
  std::string equivalence = {}; ///< A line on optimizer equivalence; empty: not asked.
  std::string file = {};        ///< That declares it, where there are several; else empty.

  /// `P=4, M=8`
  std::string parameterText() const;
};

} // namespace sluice
