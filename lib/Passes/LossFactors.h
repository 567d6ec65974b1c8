// What an executor multiplies by so that a step's gradient is the one that `loss` asks for: each microbatch's
// loss, or once each accumulator, as `scale` in the training says. With R replicas, n samples or tokens of
// microbatch m, and G microbatches of N samples in what an update reads (a synchronous step: in all), the
// mean loss of m counts
//
//   mean over samples, tokens   n / (R N)
//   mean over microbatches      1 / (R G)
//   sum                         n
//
// and its sum (`microbatch_loss = sum`) that divided by n. Under `scale = accumulator` and `reduced` the same
// number multiplies the accumulator, and losses count 1; under `program` nothing is multiplied. See
// docs/language.md, "The gradient contract".
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"
#include "Passes/ExecutorTables.h"

#include "llvm/ADT/StringRef.h"

namespace sluice {

struct LossScales {
  std::vector<LossFactor> ofMicrobatch; ///< Per microbatch (unit of one, with sequence splits).
  /// Per stage and update of it: what multiplies the accumulator before that update. Empty: nothing does. In
  /// an asynchronous program whose stages update at different times the factor of a loss suits its last
  /// stage, and the others are brought to theirs.
  std::vector<std::vector<Fraction>> ofUpdate;
  /// Why there are none, in words: sums beyond 2^63, or no number that does it. Empty: there are.
  llvm::StringRef problem;
};

/// Linear in ops in asynchronous programs, else in stages and microbatches.
LossScales lossScales(const Program &program, const CostModel &costs);

/// LossScales::ofMicrobatch.
std::vector<LossFactor> lossFactors(const Program &program, const CostModel &costs);

} // namespace sluice
