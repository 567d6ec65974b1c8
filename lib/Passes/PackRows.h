// Rows of an executor's table as rows plus repeats: what comes again and again is kept once, with the moves
// of its operands from turn to turn (lib/Runtime/sluice/Expand.h writes them out again, row for row).
//
// Slots are reused first in, first out, so which one an op gets depends on the order of the free ones alone,
// and giving all slots other names changes nothing but names. Once a device holds and frees the same things
// a turn later, the slots of that turn are therefore those of the turn before under one fixed permutation:
// no slot has to be added for rows to repeat. Phases in which slots are still new have a map as well.
//
// A row counts 1 and a repeat `repeatWeight` more than its rows. Of all ways to cover the rows by rows and
// by repeats of some promising periods, each repeat as long as it goes on, the lightest is taken. Linear in
// rows, for each of at most `mostPeriods` periods.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <sluice/Schedule.h>

#include <vector>

namespace sluice {

struct PackedRows {
  std::vector<runtime::Instruction> rows;
  std::vector<runtime::Repeat> repeats;
  std::vector<runtime::Move> moves;
};

PackedRows packRows(llvm::ArrayRef<runtime::Instruction> rows);

} // namespace sluice
