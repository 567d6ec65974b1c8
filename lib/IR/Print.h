// Text of the IR: for reading (`sluice dump ir`), and as a schedule in the language that makes the same IR
// again (`sluice dump sluice`).
#pragma once

#include "IR/Program.h"

namespace sluice {

/// One op a line with its id, device and typed prerequisites; places and loops if `sources` is given.
std::string printIr(const Program &program, const ProgramIndex &index,
                    const SourceManager *sources = nullptr);

/// A file of one schedule: `place` lines, then one `device` block per device, one full op a line. Parsed
/// and elaborated it gives an IR equal to `program`.
std::string printSluice(const Program &program);

} // namespace sluice
