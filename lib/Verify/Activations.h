// What a device holds of each stage and microbatch while its program runs: the states and transitions of
// rules 203 to 210. Internal to lib/Verify.
#pragma once

#include "Verify/Faults.h"

namespace sluice {

/// State of one (stage, microbatch) on the device where it is placed.
enum class Activation : uint8_t {
  None,  ///< No forward yet.
  Input, ///< Only the stage input is kept.
  Saved,
  Half, ///< The input half has run, the weight half not.
  Gone, ///< Nothing kept, or dropped.
  Done,
};

/// One byte per pair, row-major by stage: an Activation and what has run whatever became of it.
struct PairState {
  Activation activation : 4 = Activation::None;
  bool forwardRan : 1 = false;
  bool backwardRan : 1 = false; ///< The backward or the input half.
  friend bool operator==(const PairState &, const PairState &) = default;
};
static_assert(sizeof(PairState) == 1);

/// Fault::cause of a missing input or gradient that another split of the same microbatch makes.
inline constexpr uint8_t ofSplit = 15;

/// Walks every device program once. Fault::cause is the Activation that an op met, or `ofSplit`. Faults that
/// follow from others are not left out yet, and pairs that end unfinished (201, 202) are left to the reader
/// of the final states. `skipMisplaced`: some ops stand where their pair is not placed; pass over them.
struct ActivationWalk {
  std::vector<PairState> states;
  std::vector<Fault> faults;
};
ActivationWalk walkActivations(const Program &program, const CostModel &costs, bool skipMisplaced);

} // namespace sluice
