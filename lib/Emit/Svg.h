// The timeline as a picture (SVG 1.1 and a style sheet; no script, no font of its own): a row a device, a
// rectangle an op, coloured by Emit/Palette. It reads on light and on dark pages, and its text stays text.
// Each op says in its <title> what it is and when. Rows with more ops than could be told apart show the share
// of time that each kind of op takes instead. Lengths are in hundredths of a pixel, computed in integers, so
// the same input gives the same bytes.
#pragma once

#include "Emit/TimedSchedule.h"

#include "llvm/ADT/ArrayRef.h"

namespace sluice {

/// The whole document, ended by '\n'. Of TimedSchedule::part from, to, firstDevice, deviceEnd and maxRows
/// count. Several schedules stand below each other on one scale of time, if all count ticks or none does.
std::string svg(llvm::ArrayRef<TimedSchedule> schedules);

} // namespace sluice
