// Whether the gathered weights of each copy are there and of the newest version where ops run on them: the
// walk behind rules 605 to 607. Internal to lib/Verify.
#pragma once

#include "Verify/Faults.h"

namespace sluice {

/// The first op of a copy that finds its weights absent (606, Fault::other dropped them) or old (605,
/// Fault::other is the update), and others that lack the same for the same reason.
struct WeightLack {
  Fault fault;
  uint32_t version = 0, newest = 0; ///< Of the weights that are there, and that the copy has made.
  bool isOfStepBefore = false;      ///< Fault::other ran in the step before.
  std::vector<OpId> also;
};

/// Fault::cause of 606.
enum Absence : uint8_t { NeverGathered, Dropped, StillComing };
/// Fault::cause of 607; Fault::other gathered or dropped the weights, where an op did.
enum NoChange : uint8_t { IsFresh, IsComing, IsAbsent, IsAlwaysThere };

struct ResidencyWalk {
  std::vector<WeightLack> lacks;
  std::vector<Fault> idle; ///< 607: ops that change nothing in any step, of copies that lack nothing.
};
/// Walks each device that gathers or drops weights: twice in a row for a step, so that the second finds what
/// the first leaves, or once if the program is asynchronous. `after_reduce = resharded` makes a reduction
/// drop the weights where it stands or starts. Linear in ops.
ResidencyWalk walkResidency(const VerifyContext &context);

} // namespace sluice
