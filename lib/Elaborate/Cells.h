// The notation of table cells, PyTorch's: `0F3` is forward of microbatch 3 on stage 0; I, W and B are the
// input half, the weight half and the whole backward; `(0F7;7B3)OVERLAP_F_B` is an overlap; `0SEND_F3` and
// `1RECV_F3` are the two ends of a message, `(0SEND_F3;1RECV_B0)BATCH_P2P` a group of them; `0UNSHARD`,
// `0RESHARD` and `0REDUCE_GRAD` have no microbatch. Cells are read strictly to their last character.
#pragma once

#include "IR/Program.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace sluice {

struct Cell {
  /// Ops of the cell: one, or the members of an overlap or group with their flags set. Empty for an empty
  /// cell.
  llvm::SmallVector<Op, 2> ops;
  /// Where reading stopped: npos if the whole cell is good.
  size_t badAt = llvm::StringRef::npos;
};

/// `text` without surrounding blanks; empty or `_` is an empty cell.
Cell parseCell(llvm::StringRef text);

/// Reads one op, `0F3`, at the front of [at, end) and moves `at` behind it. False, with `at` at the first
/// character that does not fit, if there is none. What follows the op is not looked at.
bool scanOp(const char *&at, const char *end, Op &op);

/// A good cell that `text`, a bad one, may have been meant as: other case, a slip in the word, or more than
/// one number. Empty if there is none.
std::string nearestCell(llvm::StringRef text);

} // namespace sluice
