// A timeline as a Chrome trace (Trace Event Format, docs.google.com/document/d/
// 1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU, JSON object form), which ui.perfetto.dev and
// chrome://tracing open. A process a schedule, a track a resource: the program of each device, what goes
// on beside it, each pair of devices or shared lane that messages cross. Nothing on a track overlaps;
// slices are pairs of begin and end. Counters show memory and activations of each device, arrows lead
// from what makes a value over its message to what uses it. docs/outputs.md lists the fields. Times are
// microseconds, exact where a decimal is; a tick is one.
#pragma once

#include "Emit/TimedSchedule.h"

namespace llvm {
class raw_ostream;
}

namespace sluice {

/// Of TimedSchedule::part the devices and the time count; what begins or ends outside is written whole.
/// Linear in the ops, but for sorting what several devices put on one lane.
void writeTrace(llvm::ArrayRef<TimedSchedule> schedules, llvm::raw_ostream &out);

} // namespace sluice
