// What a build needs to know of a run of `generate`: a file of dependencies, and the stamp it is about. Make,
// Ninja and CMake read it as the one that `gcc -MD` writes.
#pragma once

#include "Emit/Cpp.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace sluice::tool {

/// A rule without a recipe: `stamp` depends on every file that was read and on the tool itself, by which the
/// library of schedules is covered. All paths are absolute, since a build may run in another folder.
std::string dependencyText(llvm::StringRef stamp, llvm::ArrayRef<std::string> opened);

/// What a stamp holds: the names of the files it stands for, a line each.
std::string stampText(llvm::ArrayRef<EmittedFile> files);

} // namespace sluice::tool
