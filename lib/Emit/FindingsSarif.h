// Findings in SARIF 2.1.0, the format that code scanning services take
// (https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html): one run, a rule for each that was
// broken, a result for each finding with its places, its related places and, where the fix is certain, its
// edits.
#pragma once

#include "Support/Diagnostics.h"

namespace sluice {

/// The whole document, ended by '\n'. Files are named as they were on the command line, as URIs.
std::string findingsSarif(llvm::ArrayRef<Finding> findings, const SourceManager &sources);

} // namespace sluice
