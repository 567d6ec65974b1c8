// What model, cluster and training say about an elaborated schedule, in numbers.
#pragma once

#include "IR/CostModel.h"
#include "Sema/Evaluate.h"

namespace sluice {

/// Evaluates every cost, size and link for the stages, microbatches and devices of `program`. Reports 104
/// (ticks beside seconds), 105, 106, 114, 805, 807 and 809; returns nothing if there was an error.
std::optional<CostModel> evaluateCosts(const Program &program, const CheckedSchedule &schedule,
                                       Evaluator &evaluator);

/// Sets what `samples(m)` is worth where batch, microbatches and replicas give it.
void setUniformSamples(Evaluator &evaluator, std::optional<uint32_t> microbatches);

} // namespace sluice
