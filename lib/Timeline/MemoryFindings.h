// Findings that need the memory account: 701 memory-exceeded, where CostModel::memoryLimit is given, and
// 706 held-too-long, where a recompute or drop could stand next to what it serves. 706 is not guessed: the
// ops are moved in a copy of the program, which is timed and measured again.
#pragma once

#include "Timeline/Memory.h"

namespace sluice {

/// Whether the two rules have anything to look at: a limit and sizes, or ops that could be moved. Linear
/// in the ops at most; programs without limits, recomputes and drops are told from a glance at each op.
bool hasMemoryQuestions(const Program &program, const CostModel &costs);

/// Call for complete programs without errors. Linear, and for 706 linear in each of few lines.
void checkMemory(const Program &program, const ProgramIndex &index, const CostModel &costs,
                 const Timeline &timeline, Diagnostics &diagnostics, const SourceManager *sources);

/// HeldTooLong.cpp: 706 alone.
void checkHeldTooLong(const Program &program, const ProgramIndex &index, const CostModel &costs,
                      const Timeline &timeline, Diagnostics &diagnostics, const SourceManager *sources);
/// Whether some recompute or drop stands apart from the op it could stand next to.
bool holdsTooLong(const Program &program);

} // namespace sluice
