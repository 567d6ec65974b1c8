// Optimizer equivalence: does one step of the schedule do to the weights what unpipelined training of the
// same batch does? It does if one version of the weights is read throughout, every contribution reaches its
// update once and with the declared factor, and every reduction comes before its update. Said apart from any
// figure, with what it does not promise.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"
#include "Support/Diagnostics.h"

#include <string>
#include <vector>

namespace sluice {

struct Equivalence {
  enum class Holds : uint8_t { Yes, No, Undecided };
  Holds holds = Holds::Undecided;
  std::string reason;      ///< In words; the same for everything else of this struct.
  std::vector<Rule> rules; ///< Of the errors that stand against it, by number.
  std::vector<std::string> notPromised;
};
/// `equal`, `not equal`, `not decided`.
llvm::StringRef name(Equivalence::Holds holds);

/// `found`: the findings of this program's verification.
Equivalence equivalenceOf(const Program &program, const CostModel &costs, llvm::ArrayRef<Finding> found);

/// `the step equals unpipelined training: …; not promised: …`, one line.
std::string str(const Equivalence &equivalence);

} // namespace sluice
