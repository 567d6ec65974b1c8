// The pages of docs/schedules, made from the library's own texts and figures.
#pragma once

#include "Library.h"

namespace sluice::tool {

/// What every figure of the library rests on.
inline constexpr llvm::StringLiteral libraryCosts =
    "one tick for each forward, input half and weight half of a stage, free transfers";

/// A page in Markdown; it shows `NAME.svg` beside it.
std::string libraryPage(const LibraryEntry &entry);
/// The timeline at the defaults.
std::string libraryPicture(const LibraryEntry &entry);
/// A table of all pages.
std::string libraryIndex(llvm::ArrayRef<const LibraryEntry *> entries);

} // namespace sluice::tool
