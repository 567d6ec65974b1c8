// A timeline as a table (RFC 4180, with a line of names): a row an op, then one for all that is under way
// beside the devices. docs/outputs.md lists the columns. Times are exact: decimals in the unit that the file
// writes, or fractions where no decimal is equal.
#pragma once

#include "Emit/TimedSchedule.h"

namespace llvm {
class raw_ostream;
}

namespace sluice {

/// Of TimedSchedule::part the devices and the time count.
void writeTimelineCsv(llvm::ArrayRef<TimedSchedule> schedules, llvm::raw_ostream &out);

} // namespace sluice
