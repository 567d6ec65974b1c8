// How many sets of gradients an accumulator holds under `contributions = separate`: each contribution has
// its own until the reduction (or the update, where none is needed) makes one of them. At least one set is
// always there. Memory counts by it, and rule 705.
#pragma once

#include "IR/Program.h"

#include <algorithm>

namespace sluice {

struct GradientSets {
  uint32_t apart = 0; ///< Contributions since the last reduction.
  bool isJoined = false;

  uint32_t count() const { return std::max(apart + (isJoined ? 1 : 0), 1u); }

  /// What the start of `op` adds, an op of this accumulator's stage.
  void begin(const Op &op) {
    if (op.contributes() && !op.overwrites())
      ++apart;
  }
  /// What its end joins or empties. `hasZero`: some op of the program empties accumulators, so that no
  /// update does.
  void end(const Op &op, bool hasZero) {
    if (op.overwrites())
      *this = {1, false};
    else if (op.kind == OpKind::Zero || (op.kind == OpKind::Update && !hasZero))
      *this = {};
    else if ((op.kind == OpKind::Reduce && !op.isStarted()) || op.kind == OpKind::Update)
      *this = {0, isJoined || apart > 0};
  }
};

} // namespace sluice
