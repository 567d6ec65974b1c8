// `tighten`: pulls ops of the fill and the drain forward into free slots, without letting any device hold
// more activations than the fullest one holds already. A repeated building block starts and ends as loosely
// as it repeats; this closes it up.
//
// Ops have slots, one after the other on each device: those of a timetable, or else as early as ops of one
// slot each (a whole backward two) allow. Ops are visited slot by slot, devices in ascending order, and each
// moves to the first free slot behind what it needs and behind the op of its own kind and stage before it.
// - With backward halves: before the first backward of stage 0 and behind its last forward; then all slots
//   are closed up, and the drain is swept once more with the weight halves taken out. They come back into the
//   first free slots, the latest stage first, its oldest microbatch first.
// - With whole backwards alone: every op, once.
//
// Source: "Pipeline Parallelism with Controllable Memory" (Qi et al., 2024) and what the authors' schedulers
// do for V-Half, V-Min and 1F1B-V (sail-sg/zero-bubble-pipeline-parallelism@39f2c186).
#pragma once

#include "IR/Program.h"

#include <optional>

namespace sluice {

struct Tightened {
  /// The ops of each device in their new order, each with its place in the source; all else unchanged.
  std::optional<Program> program;
  OpId unsuited = noOp; ///< Where there is none: the first op of a kind that `tighten` does not move.
};

/// `slots`: one per op, ascending on each device; empty, or of another form: none known. A program that
/// lacks ops, repeats them or whose order is cyclic comes back as it is: verify says what is wrong. Linear
/// in ops but for how far each moves, which is at most the depth of the pipeline.
Tightened tighten(const Program &program, llvm::ArrayRef<int64_t> slots);

} // namespace sluice
