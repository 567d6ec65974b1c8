// Moves of sends, receives and joint calls inside the program of one device: the steps that repairs of
// deadlocks consist of.
#pragma once

#include "IR/Program.h"

#include <utility>

namespace sluice {

/// A statement of posts is one op, a group, or an overlap.
OpId statementBegin(const Program &program, OpId op);
OpId statementEnd(const Program &program, OpId op);
/// A send or receive that blocks, so that it may stand in a group with others.
bool isPlainPost(const Op &op);

/// Ops [first, end), a statement or a part of a group, go in front of `to`, which begins a statement or ends
/// the device's program, or is `first` (a group falls into two there).
struct Move {
  enum class Join : uint8_t {
    None,
    Before, ///< They become the last members of the statement in front of `to`.
    Behind, ///< They become the first members of the statement that begins at `to`.
  };
  OpId first, end, to;
  Join join = Join::None;
};

/// The ops that a move touches, whole statements.
std::pair<OpId, OpId> rangeOf(const Program &program, const Move &move);

/// Whether everything that is passed, and everything that is joined, lets the moved ops go (mustKeepOrder).
/// Linear in the distance.
bool isAllowed(const Program &program, const Move &move);

/// Permutes all columns of the program, and `origin`, which has an entry an op.
void apply(const Move &move, Program &program, std::vector<OpId> &origin);

} // namespace sluice
