// Several schedules beside each other: a column each, a row a figure, with its denominator, the best of each
// row marked and the change against the first. Then where their idle time goes. Times of schedules that do
// not do the same work (other costs, microbatches or samples) have no best, and the head says what differs.
#pragma once

#include "Emit/TimedSchedule.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace sluice {

/// Lines ended by '\n', no wider than ChartOptions::width of the first unless one column alone is. Fails for
/// less than two schedules, and where some count ticks and others time.
llvm::Expected<std::string> comparison(llvm::ArrayRef<TimedSchedule> schedules);

} // namespace sluice
