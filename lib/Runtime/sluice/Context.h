// What a callback is told about the op it carries out, and a transport about the message it moves.
#pragma once

#include "Schedule.h"

namespace sluice::runtime {

struct Context {
  Op op;
  unsigned device, stage;
  unsigned microbatch; ///< noMicrobatch in zero, reduce and update.
  uint64_t step;       ///< Counted from 0 over all runs of an executor.
  uint32_t index;      ///< Row in the device's table.
  uint32_t savedSlot, pendingSlot;
  bool firstStage, lastStage;
  bool firstContribution; ///< The accumulated gradient is empty: overwrite instead of adding.
  bool lastContribution;  ///< Nothing is added after this op and before the reduction.
  bool keepInput;         ///< A forward that need not fill its Saved: a recompute will.
  bool keepNothing;       ///< A forward that is not followed by a backward.
  double lossFactor;      ///< samples(m) / batch; 0 without a microbatch.
  /// Hash of seed, step, stage and microbatch: the same in a forward and in its recompute. Seed a
  /// generator with it; state shared between ops would depend on the order they run in.
  uint64_t randomKey;
};

/// What is sent: named by the op and the stage at the caller's end.
struct Message {
  Op op;
  uint32_t channel, from, to;
  uint32_t stage, microbatch;
  uint64_t step;
};

/// One round of SplitMix64 (Steele, Lea, Flood 2014): a bijection whose output bits all depend on all inputs.
constexpr uint64_t mixBits(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}
constexpr uint64_t randomKey(uint64_t seed, uint64_t step, uint32_t stage, uint32_t microbatch) {
  return mixBits(mixBits(mixBits(seed) ^ step) ^ (uint64_t{stage} << 32 | microbatch));
}

} // namespace sluice::runtime
