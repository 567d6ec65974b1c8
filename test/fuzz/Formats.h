// One input through the reader of a format, of several texts where the format has those, and what it reads
// through all that is written from it: our JSON reads as the same schedule again, and the schedule file
// compiles to it.
#pragma once

#include "Formats/Format.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace sluice::fuzz {

void runReader(FormatReader read, llvm::ArrayRef<llvm::StringRef> texts);

} // namespace sluice::fuzz
