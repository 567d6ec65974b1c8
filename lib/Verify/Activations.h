// What a device holds of each stage and microbatch while its program runs: the states and transitions of
// rules 203 to 211. Internal to lib/Verify.
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
  Host,    ///< In host memory.
  Leaving, ///< Between `start offload` and its wait.
  Coming,  ///< Between `start reload` and its wait.
};

/// One byte per pair, row-major by stage: an Activation and what has run whatever became of it.
struct PairState {
  Activation activation : 4 = Activation::None;
  bool forwardRan : 1 = false;
  bool backwardRan : 1 = false; ///< The backward or the input half.
  bool dropped : 1 = false;
  bool reloaded : 1 = false;
};
static_assert(sizeof(PairState) == 1);

/// Fault::cause of a missing input or gradient that another split of the same microbatch makes, or the stage
/// at the other end of a skip edge.
inline constexpr uint8_t ofSplit = 15, ofSkip = 14;

/// Walks every device program once. Fault::cause is the Activation that an op met, `ofSplit` or `ofSkip`.
/// Faults that follow from others are not left out yet, and pairs that end unfinished (201, 202) are left to
/// the reader of the final states. `skipMisplaced`: some ops stand where their pair is not placed; pass over
/// them.
struct ActivationWalk {
  std::vector<PairState> states;
  std::vector<Fault> faults;
  uint32_t kinds = 0;     ///< As VerifyContext::kinds.
  bool hasStarts = false; ///< As VerifyContext::hasStarts.
};
ActivationWalk walkActivations(const Program &program, const CostModel &costs, bool skipMisplaced);

/// Whether `consumer` needs what `producer` makes of the same or of a neighbouring split's microbatch.
bool feeds(const Program &program, const Op &producer, const Op &consumer);

} // namespace sluice
