// One input through everything that `check`, `simulate`, `dump` and `queue` do, with small limits and no
// disk: imports are answered from the library alone. What a user may write never ends the process; a broken
// invariant does, by abort, which is how the fuzzer and the replay learn of it.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace sluice::fuzz {

/// `text` is a schedule file. Wherever it reads a CSV, `csv` is the file's text.
void runPipeline(llvm::StringRef text, llvm::StringRef csv = "");

/// Aborts with `invariant` on stderr unless `holds`.
void demand(bool holds, const char *invariant);

} // namespace sluice::fuzz

/// What libFuzzer calls for each input, and the replay for each file.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size);
