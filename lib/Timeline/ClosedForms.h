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

/// An equation of `expect` that holds: `bubble_time == (P - 1) * forward`.
struct StatedForm {
  std::string figure;           ///< Its left side.
  std::string formula;          ///< As written, without its condition.
  std::vector<Rational> values; ///< In ticks, nanoseconds or bytes; one for each value of a range.
  std::string schedule, file;   ///< What it speaks of, and where.
  uint32_t line = 0;
  bool isImported = false; ///< Not by the file itself.
};

struct ClosedForms {
  std::string order; ///< `GPipe`, `1F1B` …; empty if the order is none of those the forms are proved for.
  std::optional<Rational> overheadRatio, idleFraction; ///< Both, or neither where an assumption fails.
  std::vector<FailedAssumption> failed;
  std::vector<StatedForm> stated; ///< Filled in where expectations are checked.
};

/// From figures whose other parts are complete.
ClosedForms closedForms(const Program &program, const CostModel &costs, const Figures &figures);

} // namespace sluice
