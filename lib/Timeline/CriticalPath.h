// The critical path: one chain of ops and transfers, each starting when the one before has ended, that is as
// long as the makespan. Making any op off it faster changes nothing.
#pragma once

#include "Timeline/Binding.h"

namespace sluice {

struct CriticalStep {
  OpId op = noOp; ///< First op of its overlap.
  int64_t start = 0, end = 0;
  EdgeKind via = EdgeKind::Order; ///< The prerequisite that held it up: the step before.
  int64_t transfer = 0;           ///< Time between the end of the step before and `start`.
  bool isMove = false; ///< Its own time is that of a collective, a host move or a blocking transfer.
};

/// From time 0 to the makespan, in CostModel::unit; ties as Bindings has them, and of several last ops the
/// one on the lowest device. Durations and transfers of all steps add up to the makespan.
std::vector<CriticalStep> criticalPath(const Program &program, const ProgramIndex &index,
                                       const CostModel &costs, const Timeline &timeline);

/// The path in brief: what makes the makespan.
struct CriticalSummary {
  uint64_t ops = 0; ///< An overlap counts once, ops that take no time not at all.
  int64_t compute = 0, transfer = 0;
};
CriticalSummary summarize(llvm::ArrayRef<CriticalStep> path);

} // namespace sluice
