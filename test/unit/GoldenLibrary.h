// Schedules of the library at a setting, as tests of other systems' orders and of papers' tables use them.
#pragma once

#include "Driver/Compilation.h"

#include <optional>
#include <string>
#include <vector>

namespace sluice::golden {

/// A schedule that was compiled as far as asked, and what was found.
struct Compiled {
  std::optional<Program> program; ///< Nothing if there was none to elaborate.
  std::optional<sluice::Figures> figures;
  std::vector<Finding> findings;
  std::string text; ///< Rule numbers and messages, for failures.

  bool hasErrors() const;
};

/// Compiles a file of the language; it has one schedule that runs.
Compiled compile(const std::string &text, Compilation::Depth depth);

/// `import "std/…";` for every schedule of the library that `call` names.
std::string importsOf(const std::string &call);

} // namespace sluice::golden
