// Tied weights: one weight on several stages. If all copies of all members live on one device, the weight is
// there once and its gradient belongs to the accumulator of the first member named; otherwise each copy
// keeps a share, and `reduce_tied` adds them. Internal to lib/Verify.
#pragma once

#include "Verify/Faults.h"
#include "Verify/Gradients.h"

namespace sluice {

/// Fault::cause of a reduction behind a reduce_tied that has added what another member had reduced.
inline constexpr uint8_t besideTied = 200;

class Ties {
public:
  Ties(const Program &program, const Copies &copies);

  /// Some weight is tied.
  bool any() const { return !isLocalTo.empty(); }
  /// All copies of all members of this weight are on one device.
  bool isLocal(uint32_t weight) const { return isLocalTo[weight]; }
  /// The first members of local weights that `stage` also has, but for itself: its contributions go to
  /// their accumulators too.
  llvm::ArrayRef<uint32_t> alsoAddsTo(uint32_t stage) const {
    return any() ? llvm::ArrayRef<uint32_t>(also[stage]) : llvm::ArrayRef<uint32_t>();
  }
  /// Whether a contribution of `from` goes to the accumulator of `stage`.
  bool adds(uint32_t from, uint32_t stage) const {
    return from == stage || llvm::is_contained(alsoAddsTo(from), stage);
  }

private:
  std::vector<bool> isLocalTo;             // per weight
  std::vector<std::vector<uint32_t>> also; // per stage
};

/// Faults of weights on several devices: 502 and 503 of a `reduce_tied`, and in `later` 608 (Fault::op the
/// update, Fault::other a reduction behind it or noOp) and 609 (Fault::op the `reduce_tied`, Fault::other the
/// reduction that left shards). Fault::cause is the number of the weight. Nothing for programs without ties.
void findTiedFaults(const Program &program, const CostModel &costs, const Copies &copies, const Ties &ties,
                    const GradientTerms &terms, std::vector<Fault> &faults, std::vector<Fault> &later);

/// 608 and 609 in words, of copies that no earlier rule explains.
void reportTiedFaults(VerifyContext &context, std::vector<Fault> faults);

} // namespace sluice
