// The closed forms (P - 1)/M of the overhead ratio and (P - 1)/(M + P - 1) of the idle fraction, for P
// stages and M microbatches. They are stated only where they are proved: equal costs on every stage, nothing
// exposed beyond compute, and an order recognised by its ops, never by its name; then they equal the
// timeline's figures exactly.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"

namespace sluice {

struct Figures;

struct FailedAssumption {
  std::string message; ///< `stage 3 has forward 13 ms, stage 0 10 ms`
  Span span;           ///< Where that is written; may be nowhere.
};

struct ClosedForms {
  std::string order; ///< `GPipe`, `1F1B` …; empty if the order is none of those the forms are proved for.
  std::optional<Rational> overheadRatio, idleFraction; ///< Both, or neither where an assumption fails.
  std::vector<FailedAssumption> failed;
};

/// From figures whose other parts are complete.
ClosedForms closedForms(const Program &program, const CostModel &costs, const Figures &figures);

} // namespace sluice
