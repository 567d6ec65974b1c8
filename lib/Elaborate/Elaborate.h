// Checked schedule to IR: programs, timetables and tables become ops with a stage, a microbatch and a
// device. Every loop runs, every name gets its value; what is left is order.
#pragma once

#include "Sema/Evaluate.h"

namespace sluice {

struct ElaborateOptions {
  /// Expansion stops with 113 beyond this number of ops. Loops that make none stop too: all turns and
  /// calls together may be as many, and 16 more for each op.
  uint64_t maxOps = 200'000'000;
};

/// The schedule's parameters are set in `evaluator` and its steps have run. Reports 105, 106, 110-113,
/// 704 and 80x; returns nothing if there was an error. `slots`, if asked for, gets the slot of each op of a
/// timetable, fills included, and 0 for each op behind it; it is empty for other forms of a schedule.
std::optional<Program> elaborate(const CheckedSchedule &schedule, Evaluator &evaluator,
                                 const SourceManager &sources, const ElaborateOptions &options,
                                 std::vector<int64_t> *slots = nullptr);

} // namespace sluice
