// Several files of one command line: -D and --schedule go to those that have such a name, and one at least
// must.
#pragma once

#include "Common.h"

#include <set>

namespace sluice::tool {

/// As Session::openSingle, with the definitions that the file knows; adds what it knew to `known`.
ExitCode openShared(Session &session, const std::string &path, std::set<std::string> &known);
/// Usage, after a message, if a name of the command line is in no file.
ExitCode checkKnown(const std::set<std::string> &known, size_t files);

} // namespace sluice::tool
