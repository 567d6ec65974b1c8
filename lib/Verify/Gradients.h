// The life of gradients on each device: contributions are added, reduced over the members of a stage and
// used by its update. Internal to lib/Verify.
#pragma once

#include "Verify/Faults.h"

#include <optional>

namespace sluice {

/// What a program as a whole says about reductions and updates.
struct GradientTerms {
  /// `kinds`: a kindBit for each kind of op from Zero on that occurs.
  GradientTerms(const Program &program, uint32_t kinds, const CostModel &costs);

  bool hasUpdates = false; ///< Without any the program is a compute order: 501, 505 and 507 are silent.
  bool hasReductions = false;
  bool keepsUsed = false; ///< Something empties accumulators (`zero`, `overwrite`), so updates do not.
  bool isAsynchronous = false;
  bool isMean = false; ///< `reduction = mean`
  std::optional<int64_t> replicas;

  /// Members of a reduction: replicas times copies; nothing if the replicas are not declared.
  std::optional<int64_t> members(uint32_t copies) const;
  /// A reduction over one member changes nothing, wherever it stands.
  bool isIdentity(uint32_t copies) const { return members(copies) == 1; }
  /// May a stage with that many copies be updated without a reduction? Undeclared replicas count as one
  /// as long as no device reduces.
  bool mustReduce(uint32_t copies) const { return copies > 1 || (replicas ? *replicas > 1 : hasReductions); }
  /// A second reduction changes nothing: the mean of equal values, copies apart.
  bool isHarmlessTwice(uint32_t copies) const { return isMean && copies == 1; }
};

/// Faults of 501 to 506, 510, 511 and 514, one walk per device; several may have one cause. Fault::op
/// is the reduction, update or zero, or what touches a gradient (504, 511); for 505 noOp. Fault::other: 503
/// the earlier reduction, 504 the start, 514 and 511 the update that used all (or noOp), 505 and 506 the last
/// contribution. Fault::cause of 503 is harmlessRepeat where the second reduction is one too many, but
/// changes nothing. A synchronous program is judged as if run twice in a row.
inline constexpr uint8_t harmlessRepeat = 1;
std::vector<Fault> findGradientFaults(const Program &program, const CostModel &costs, const Copies &copies);
std::vector<Fault> findGradientFaults(const Program &program, const Copies &copies, const class Ties &ties,
                                      const GradientTerms &terms);

/// GradientNorms.cpp: faults of 512 and 513. Fault::op is the norm, or the update that it clips; Fault::other
/// what stands on the wrong side of it, or the norm.
void findNormFaults(const Program &program, const CostModel &costs, const Copies &copies,
                    const GradientTerms &terms, std::vector<Fault> &faults);
void reportNormFault(VerifyContext &context, const FaultGroup &group);

} // namespace sluice
