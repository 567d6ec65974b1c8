// The files of lib/Emit/page, as built into the tool, and how a page is put together from them: what a page
// needs stands in it, so that it works wherever the file lies.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <utility>

namespace sluice {

struct PageFile {
  llvm::StringRef name; ///< `timeline.css`
  llvm::StringRef text;
};
llvm::ArrayRef<PageFile> pageFiles();
llvm::StringRef pageFile(llvm::StringRef name);

/// The template of that name with `@{file}` replaced by a file of lib/Emit/page, or by what `parts` gives for
/// that name.
std::string filledPage(llvm::StringRef name,
                       llvm::ArrayRef<std::pair<llvm::StringRef, llvm::StringRef>> parts);

/// JSON as it may stand in a <script>: without '<'.
std::string scriptSafe(llvm::StringRef json);

} // namespace sluice
