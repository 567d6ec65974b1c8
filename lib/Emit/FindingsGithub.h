// Findings as workflow commands of GitHub Actions, a line each, which it shows beside the lines of a change:
// https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions
#pragma once

#include "Support/Diagnostics.h"

namespace sluice {

/// `::error file=a.sluice,line=3,col=5,…,title=206 missing-activation::message`
std::string findingsGithub(llvm::ArrayRef<Finding> findings, const SourceManager &sources);

} // namespace sluice
