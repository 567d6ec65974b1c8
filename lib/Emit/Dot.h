// The dependency graph of small schedules in the DOT language of Graphviz: a box of nodes a device, a node an
// op or overlap with its times, an edge each prerequisite with its kind, the critical path bold. For reading,
// so the number of ops is bounded.
#pragma once

#include "Emit/TimedSchedule.h"

#include "llvm/Support/Error.h"

namespace sluice {

inline constexpr uint32_t maxDotOps = 2000;

/// Of TimedSchedule::part the devices and the time count, and edges between ops that are both shown. An
/// error, ready to print, if more than maxDotOps ops are left.
llvm::Expected<std::string> dot(llvm::ArrayRef<TimedSchedule> schedules);

} // namespace sluice
