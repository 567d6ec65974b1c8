// Findings for programs: the JSON of `check` (schema in docs/language.md).
#pragma once

#include "Support/Diagnostics.h"
#include "Verify/Equivalence.h"

namespace sluice {

/// One instance a verdict speaks of, or several settings of one schedule together.
struct CheckedInstance {
  std::string schedule;
  size_t settings = 1; ///< How many of them were clean; parameters are left out where there are several.
  std::vector<std::pair<std::string, std::string>> parameters;
  std::string transport, communication;
  std::optional<Equivalence> equivalence = std::nullopt; ///< If it was asked for.
};

/// A schedule that has errors at some of several settings.
struct FailingSchedule {
  std::string schedule;
  size_t settings = 0;  ///< How many have errors.
  std::string smallest; ///< The first of them: `P=4, M=5`.
  std::string region;   ///< Which they are, in words: `where M < P`; may be empty.
};

struct FindingCounts {
  unsigned errors = 0, warnings = 0, notes = 0, allowed = 0;
};
FindingCounts countFindings(llvm::ArrayRef<Finding> findings);

/// The whole document, ended by '\n'; the same bytes for the same input.
std::string findingsJson(llvm::ArrayRef<Finding> findings, llvm::ArrayRef<CheckedInstance> checked,
                         llvm::ArrayRef<FailingSchedule> failing, unsigned allowed,
                         const SourceManager &sources);

} // namespace sluice
