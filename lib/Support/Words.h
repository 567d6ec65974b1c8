// Numbers in words, as findings list them.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// Sorts, and shortens runs of three or more: `0 to 3, 6` is 0, 1, 2, 3 and 6.
std::string numberList(std::vector<uint32_t> numbers);
/// `microbatch 3` or `microbatches 0 to 3, 6`.
std::string listed(llvm::StringRef one, llvm::StringRef many, const std::vector<uint32_t> &numbers);
/// `1 contribution`, `3 contributions`.
std::string counted(uint64_t count, llvm::StringRef one, llvm::StringRef many);

} // namespace sluice
