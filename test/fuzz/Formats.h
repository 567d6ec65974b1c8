// One input through the reader of a format, and what it reads through all that is written from it: our
// JSON reads as the same schedule again, and the schedule file compiles to it.
#pragma once

#include "Formats/Format.h"

namespace sluice::fuzz {

void runReader(FormatReader read, llvm::StringRef text);

} // namespace sluice::fuzz
