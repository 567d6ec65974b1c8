// Words of findings: numbers as they list them, and what a misspelt name may mean.
#pragma once

#include "llvm/ADT/ArrayRef.h"
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
/// The candidate nearest to `name`, if one is near enough to be meant (a third of the letters may differ);
/// empty otherwise.
llvm::StringRef nearest(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> candidates);

} // namespace sluice
