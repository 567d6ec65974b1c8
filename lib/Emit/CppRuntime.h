// The text of the runtime's headers, as built into the compiler for `generate cpp --with-runtime`.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace sluice {

struct RuntimeFile {
  llvm::StringRef name; ///< `sluice/Executor.h`: below a folder on the include path.
  llvm::StringRef text;
};
llvm::ArrayRef<RuntimeFile> runtimeFiles();

} // namespace sluice
