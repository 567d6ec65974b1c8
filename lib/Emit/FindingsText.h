// Findings for people: place, message, the line with carets, related places, the fix.
#pragma once

#include "Support/Diagnostics.h"

namespace sluice {

struct FindingsTextOptions {
  bool color = false;
  /// Findings after these are counted, not shown; 0: all are shown.
  unsigned most = 100;
};

std::string findingsText(llvm::ArrayRef<Finding> findings, const SourceManager &sources,
                         const FindingsTextOptions &options = {});

} // namespace sluice
