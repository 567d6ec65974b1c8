// Text of the IR: for reading (`sluice dump ir`), and as a schedule in the language that makes the same IR
// again (`sluice dump sluice`).
#pragma once

#include "IR/Program.h"

namespace sluice {

/// One op a line with its id, device and typed prerequisites; places and loops if `sources` is given.
std::string printIr(const Program &program, const ProgramIndex &index,
                    const SourceManager *sources = nullptr);

/// An op as it is written, with all its suffixes.
std::string written(const Program &program, OpId op);

/// The lines of a model that say its skip edges and tied weights; empty if it has none.
std::string printStructure(const Program &program);

/// `place` lines, then one `device` block per device, one full op a line. In a file whose model says
/// printStructure it gives an IR equal to `program`.
std::string printSchedule(const Program &program);

/// A file of one schedule: printSchedule, behind a model of one tick per op where that must say a structure.
std::string printSluice(const Program &program);

} // namespace sluice
