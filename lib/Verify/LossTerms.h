// What `loss` asks of a step: the weight of each sample (or token) in it, and what the executor makes of
// one microbatch before any scale of the program. Exact fractions; internal to lib/Verify.
#pragma once

#include "Verify/Context.h"

namespace sluice {

class LossTerms {
public:
  LossTerms(const Program &program, const CostModel &costs);

  /// What one update reads: whole microbatches, and their samples or tokens.
  struct Group {
    int64_t microbatches = 0, size = 0;
    bool overflows = false;
    uint32_t smallest = 0, largest = 0; ///< Microbatches of it, by size.
  };
  void add(Group &group, uint32_t microbatch) const;

  /// `tokens` under a mean over tokens, `samples` otherwise.
  const char *units() const { return isOverTokens ? "tokens" : "samples"; }
  /// Samples or tokens of a whole microbatch; 1 where none are declared.
  int64_t sizeOf(uint32_t microbatch) const { return sizes.empty() ? 1 : sizes[microbatch]; }
  /// Whether one factor on the whole accumulator turns what was added there into what is wanted, as `scale =
  /// accumulator` and `reduced` demand.
  bool isServedByOneFactor(const Group &group) const;

  /// The factor that the gradient of the sum of a microbatch's losses should get; nothing if it overflows
  /// or a mean of nothing is taken.
  std::optional<Rational> target(const Group &group, uint32_t microbatch) const;
  /// What the loss of a microbatch gives without any scale: its mean, or its sum.
  std::optional<Rational> own(uint32_t microbatch) const;

private:
  const CostModel &costs;
  const Rational replicas;
  bool isOverTokens;
  std::vector<int64_t> sizes; // per whole microbatch
};

/// 508 mean-of-means and 509 empty-microbatch. False if a mean of nothing is taken.
bool verifyLossTerms(VerifyContext &context);

} // namespace sluice
