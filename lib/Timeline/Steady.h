// The steady state of a timeline: every device repeats one block of ops, `microbatches` further on each time,
// and all their ends repeat `period` later. It follows from ops and ends alone, however the timeline came
// about. A block of a schedule under dependencies of this kind settles into such a state, of as many
// microbatches as its longest cycle of waits has in flight (Baccelli, Cohen, Olsder, Quadrat:
// "Synchronization and Linearity", 1992, theorem 3.109 on the cyclicity of max-plus matrices).
#pragma once

#include "Timeline/Repetition.h"
#include "Timeline/Simulate.h"

namespace sluice {

struct Steady {
  int64_t period = 0; ///< In CostModel::unit.
  /// Of each device: from `first` + `length` on every op is the one `length` before it, moved on, and ends
  /// `period` later. A block is as long as its times take to repeat: some of those the ops alone repeat.
  Repetition blocks;
};

/// The one of fewest microbatches around the middle of what repeats, else around three quarters or a quarter
/// of it; nothing where times do not repeat on all devices for one number of microbatches. Linear in the ops.
std::optional<Steady> findSteady(const Program &program, const Timeline &timeline,
                                 const Repetition &repetition);

/// Whether one block holds all the work of its microbatches: as many forwards, and as many contributions to
/// gradients or none at all, as there are stages and microbatches. GPipe's forwards alone are no steady state
/// of the step.
bool isWhole(const Program &program, const Steady &steady);

/// How often the block repeats, the first time included, on the device where it does least often.
uint64_t fewestBlocks(const Steady &steady);

/// Whether no time and no size depends on the microbatch, and none on what shares a lane, so that what
/// repeats in a timeline repeats in all that follows from it.
bool isSameThroughout(const Program &program, const CostModel &costs);
/// The steady state with each part narrowed to edges, and to ops whose inputs from other stages are made in
/// the steady state as well (a part may be left with less than a block): where figures may take one block for
/// all that repeat it. Nothing where other than plain ops repeat, or times or sizes differ.
std::optional<Steady> repeatedParts(const Program &program, const ProgramIndex &index, const CostModel &costs,
                                    const std::optional<Steady> &steady);

} // namespace sluice
