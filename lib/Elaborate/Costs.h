// What model, cluster and training say about an elaborated schedule, in numbers.
#pragma once

#include "IR/CostModel.h"
#include "Sema/Evaluate.h"

namespace sluice {

/// Samples that a sweep holds, whatever the file says of them (LANGUAGE.md section 7).
struct HeldSamples {
  enum class Of : uint8_t { Batch, Microbatch };
  Of of = Of::Batch;
  /// Of a step over all replicas, or of each microbatch. Nothing where the file writes the `samples(m)` that
  /// are held: those count then, and a `batch` of the file does not.
  std::optional<int64_t> count;
};

/// Evaluates every cost, size and link for the stages, microbatches and devices of `program`. Reports 104
/// (ticks beside seconds), 105, 106, 114, 805, 807 and 809; returns nothing if there was an error. What is
/// held needs a `training` in the file.
std::optional<CostModel> evaluateCosts(const Program &program, const CheckedSchedule &schedule,
                                       Evaluator &evaluator,
                                       const std::optional<HeldSamples> &held = std::nullopt);

/// Sets what `samples(m)` is worth where batch, microbatches and replicas give it, and what `batch` and
/// `microbatch_samples` are worth where something else is held than they say.
void setUniformSamples(Evaluator &evaluator, std::optional<uint32_t> microbatches,
                       const std::optional<HeldSamples> &held = std::nullopt);

} // namespace sluice
