// The life of gradients on each device: contributions are added, reduced over the members of a stage and
// used by its update. Internal to lib/Verify.
#pragma once

#include "Verify/Faults.h"

#include <optional>

namespace sluice {

/// What a program as a whole says about reductions and updates.
struct GradientTerms {
  GradientTerms(const Program &program, const CostModel &costs);

  bool hasUpdates = false; ///< Without any the program is a compute order: 501 and 505 are silent.
  bool hasReductions = false;
  bool isAsynchronous = false;
  std::optional<int64_t> replicas;

  /// Members of a reduction: replicas times copies; nothing if the replicas are not declared.
  std::optional<int64_t> members(uint32_t copies) const;
  /// A reduction over one member changes nothing, wherever it stands.
  bool isIdentity(uint32_t copies) const { return members(copies) == 1; }
  /// May a stage with that many copies be updated without a reduction? Undeclared replicas count as one
  /// as long as no device reduces.
  bool mustReduce(uint32_t copies) const { return copies > 1 || (replicas ? *replicas > 1 : hasReductions); }
};

/// Faults of 501, 502, 503, 505, 506 and 514, one walk per device; several may have one cause. Fault::op
/// is the reduction or update (for 505 noOp), Fault::other: 503 the earlier reduction, 514 the update
/// that used all (or noOp), 505 and 506 the last contribution.
/// `zero` is passed over: what it discards or fails to clear are rules of their own.
std::vector<Fault> findGradientFaults(const Program &program, const CostModel &costs, const Copies &copies);

} // namespace sluice
