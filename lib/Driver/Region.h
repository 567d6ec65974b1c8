// Which of many settings fail, in words: a condition on the parameters, or a list. A condition is given only
// if it holds at exactly the settings that fail; it stems from a small family (Conditions.h), the plainest
// first, and stands in the words of the language, so that it can go into a `require`. Values tried say
// nothing of values not tried.
#pragma once

#include "Driver/Compilation.h"

namespace sluice {

enum class Outcome : uint8_t {
  Passes,
  Fails,
  Refused, ///< By a `require`: what would have been is unknown.
  Hidden   ///< Another error stands there, which may have kept this one from being seen.
};

/// `where M < P`, `at every setting`, or a list: `at P=4: M = 5 to 7; P=5: M = 6`. Hidden settings count as
/// passing unless a condition is much plainer without them; then the text says how many were left out.
/// Empty if one setting fails, or all do. `settings` is a product, the last parameter turning fastest.
std::string describeRegion(llvm::ArrayRef<Setting> settings, llvm::ArrayRef<Outcome> outcomes);

} // namespace sluice
