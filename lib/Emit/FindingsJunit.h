// Findings as a JUnit report, which continuous integration shows as tests
// (https://github.com/testmoapp/junitxml): a suite a file, a case for each clean schedule and each finding.
#pragma once

#include "Support/Diagnostics.h"

namespace sluice {

/// Something that was found clean.
struct CleanCase {
  std::string file, name;
};

/// The whole document, ended by '\n', without times. Findings below `threshold` are cases that pass, with
/// their text as output.
std::string findingsJunit(llvm::ArrayRef<Finding> findings, llvm::ArrayRef<CleanCase> clean,
                          Severity threshold, const SourceManager &sources);

} // namespace sluice
