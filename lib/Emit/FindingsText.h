// Findings for people: place, message, the line with carets, related places, the fix.
#pragma once

#include "Support/Diagnostics.h"

namespace sluice {

struct FindingsTextOptions {
  bool color = false;
  /// Findings after these are counted, not shown; 0: all are shown.
  unsigned most = 100;
};

/// What stands behind a finding and its notes, a line each: at which settings, where they lie, the fix.
std::string closingLines(const Finding &finding);

std::string findingsText(llvm::ArrayRef<Finding> findings, const SourceManager &sources,
                         const FindingsTextOptions &options = {});

} // namespace sluice
