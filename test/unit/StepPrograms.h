// Between the compiler's IR and the programs of the step machine, and the legal programs that tests start
// from.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"
#include "StepMachine.h"

#include "llvm/ADT/StringRef.h"

namespace sluice::machine {

/// The same program in the machine's words.
StepProgram stepProgram(const Program &program, const CostModel &costs);
/// The IR of a program that began as `like`, without places in a text.
Program programOf(const StepProgram &program, const Program &like);
/// What the settings say, for the checker; `like` gives times and sizes.
CostModel costsOf(const Setting &setting, const CostModel &like);

/// A program with its IR, from which mutants are made.
struct Start {
  std::string name;
  Program program;
  CostModel costs;
};
/// The schedules of a file, as far as they can be made into programs.
std::vector<Start> startsIn(const std::string &source);
/// Schedules of the library at small sizes, as they are and with written communication, and random ones.
std::vector<Start> starts(size_t randomOnes);

/// The families of errors that the checker reports, in the order of blame; `findings` are its words.
std::vector<unsigned> checkedFamilies(const StepProgram &program, const Start &start, std::string &findings);

/// Settings and programs, as `dump sluice` prints them.
std::string text(const StepProgram &program, const Start &start);

} // namespace sluice::machine
