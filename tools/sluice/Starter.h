// Files to start from. Each is compiled before it is given away: what it expects of itself is what its
// timeline gives, and a starter with findings is a fault of the tool.
#pragma once

#include "Library.h"
#include "MegatronOptions.h"

namespace sluice::tool {

/// With a model whose costs are to be measured, and the schedule of the library.
std::string starterText(const LibraryEntry &entry, llvm::StringRef file);
/// The pipeline of a Megatron-LM job, with costs per layer to be measured.
std::string megatronText(const MegatronJob &job, llvm::StringRef file);

/// `text` with an `expect main` block that its figures meet, rounded up. Nothing if it has findings; they
/// have been printed to stderr then.
std::optional<std::string> withExpectations(const std::string &text, llvm::StringRef file);

} // namespace sluice::tool
