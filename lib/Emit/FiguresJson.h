// The JSON of `simulate` (schema in docs/language.md): per schedule its parameters, figures and closed forms,
// the figures of each device, and those of each stage. Every figure is {"exact": fraction, "value": shortest
// double that reads back equal, "unit"}: times in the smallest unit the file writes or `tick`, sizes in `B`,
// throughput in `1/s` or `1/tick`, all else in `1`. A figure without a value is left out.
#pragma once

#include "Emit/TimedSchedule.h"

#include "llvm/ADT/ArrayRef.h"

namespace sluice {

/// The whole document, ended by '\n'; the same bytes for the same input.
std::string figuresJson(llvm::ArrayRef<TimedSchedule> schedules);

} // namespace sluice
