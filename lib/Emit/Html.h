// The timeline as one page that a browser shows by itself: no network, nothing else to install. A canvas for
// each schedule, on one scale of time where all count alike, which zooms and pans; figures as tables; what an
// op waits for, what it needs and how late it may be; memory, messages and the critical path on demand. The
// page is made from lib/Emit/page and Emit/HtmlSchedule; the same input gives the same bytes.
#pragma once

#include "Emit/TimedSchedule.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace sluice {

/// Ops that a page holds at most; browsers draw so many without delay.
inline constexpr uint64_t maxPageOps = 1'000'000;

/// Of TimedSchedule::part from, to, firstDevice and deviceEnd count; transfers, critical and memoryStrip say
/// what the page shows at first. An error beyond maxPageOps, which says
/// what shows less.
llvm::Expected<std::string> html(llvm::ArrayRef<TimedSchedule> schedules);

} // namespace sluice
