// Which device works on each stage for each microbatch, and how many of each there are; private to
// lib/Elaborate.
#pragma once

#include "Sema/Evaluate.h"

namespace sluice {

inline constexpr uint32_t maxDevices = 1u << 16;

/// Fills stages, microbatches, devices and placement of `program` from the `place` lines, the model's
/// stages, the training's microbatches and the cluster's devices. Reports 113 (more pairs than `maxOps`),
/// 801, 805 and range errors; false if there was one.
bool evaluatePlacement(const CheckedSchedule &schedule, Evaluator &evaluator, uint64_t maxOps,
                       Program &program);

/// What the other blocks say of a size, if they do.
struct DeclaredSize {
  int64_t value = 0;
  Span span;
};
/// `setting` is `stages`, `microbatches` or `devices`. An error in its expression is reported and makes
/// `failed` true.
std::optional<DeclaredSize> declaredSize(Evaluator &evaluator, llvm::StringRef setting, bool &failed);
/// Training counts whole microbatches, programs the units they are split into. 106 and false on overflow.
bool multiplySplits(DeclaredSize &microbatches, uint32_t splits, Diagnostics &diagnostics);

} // namespace sluice
