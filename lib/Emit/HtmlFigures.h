// Figures as HTML: the few that everybody looks for, and tables of all. What a figure is a share of stands
// beside it. The text of every value is exact. Private to lib/Emit.
#pragma once

#include "Emit/TimedSchedule.h"

namespace sluice {

/// A list of tiles, then a line that says what they are.
std::string figureTiles(const TimedSchedule &schedule);
/// Tables: the schedule's figures, a row a device, a row a stage; then all as `simulate` prints them.
std::string figureTables(const TimedSchedule &schedule);

} // namespace sluice
