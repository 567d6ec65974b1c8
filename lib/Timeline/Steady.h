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
  int64_t period = 0;        ///< In CostModel::unit.
  uint32_t microbatches = 0; ///< As Repetition::microbatches.
  /// Of each device: from `first` + `length` on every op is the one `length` before it, moved on, and ends
  /// `period` later. `length` is that of the block whose times repeat, a multiple of Repetition's.
  std::vector<RepeatedOps> devices;
};

/// The one of fewest microbatches around the middle of what repeats, else around three quarters or a quarter
/// of it; nothing where times do not repeat on all devices for one number of microbatches. Linear in the ops.
std::optional<Steady> findSteady(const Program &program, const Timeline &timeline,
                                 const Repetition &repetition);

/// Whether one block holds all the work of its microbatches: as many forwards, and as many contributions to
/// gradients or none at all, as there are stages and microbatches. GPipe's forwards alone are no steady state
/// of the step.
bool isWhole(const Program &program, const Steady &steady);

} // namespace sluice
