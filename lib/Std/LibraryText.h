// The schedule library, in the language, as built into the compiler: what `import "std/NAME"` reads.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace sluice {

struct LibraryFile {
  llvm::StringRef name; ///< `one_f_one_b.sluice`
  llvm::StringRef text;
};
llvm::ArrayRef<LibraryFile> libraryFiles();

} // namespace sluice
