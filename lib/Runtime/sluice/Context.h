// What a callback is told about the op it carries out, and a transport about the message it moves.
#pragma once

#include "Schedule.h"

namespace sluice::runtime {

struct Context {
  Op op;
  unsigned device, replica, stage;
  unsigned microbatch; ///< noMicrobatch where there is none. With sequence splits a unit of one.
  unsigned split;      ///< Of the whole microbatch `microbatch / splits`; 0 without sequence splits.
  uint64_t step;       ///< Counted from 0 over all runs of an executor.
  uint32_t index;      ///< Row in the device's table.
  uint32_t savedSlot, pendingSlot;
  bool firstStage, lastStage;
  bool firstContribution; ///< The accumulated gradient is empty: overwrite instead of adding.
  bool lastContribution;  ///< Nothing is added after this op and before the reduction.
  bool keepInput;         ///< A forward that need not fill its Saved: a recompute will.
  bool keepNothing;       ///< A forward that is not followed by a backward.
  bool isStarted;         ///< Only started: a `finish` follows.
  bool isLocal;           ///< norm: of this device's stages alone.
  double lossFactor;      ///< samples(m) / batch; 0 without a microbatch.
  /// scale: what multiplies the accumulated gradient. Backward: the incoming gradient; its input half: the
  /// gradient it passes on; its weight half: its contribution. 1 where the schedule says nothing.
  double factor;
  /// Hash of seed, step, stage and microbatch: the same in a forward and in its recompute, another in every
  /// replica. Seed a generator with it; state shared between ops would depend on the order they run in.
  uint64_t randomKey;
  uint32_t weights;    ///< Version of the stage's weights to read, of Copy::versions.
  uint32_t newWeights; ///< update: the version to write; may be the one that is read.
  uint32_t skip; ///< shape: the skip edge that the message comes over, into Tables::skips; none: the chain.
  uint32_t tie;  ///< Of the tied weight that is meant, into Tables::ties; noWeight: none.
  /// pack: the member of the joint op that it is for, counted from 0; add, unpack: whose it is. norm: 1 if
  /// this gradient counts here, 0 if another copy or replica counts it.
  uint32_t member;
  Op of; ///< finish: the op that ends. scale: Reduce or ReduceTied if what that left is meant. Else `op`.
};

/// What is sent: named by the op and the stage at the caller's end. Of joint ops `op` is that op.
struct Message {
  Op op;
  uint32_t channel, from, to; ///< Channel and workers of Network.
  uint32_t stage, microbatch;
  uint64_t step;
};

/// Who is connected with whom in a run. A worker is a device of a replica: worker = replica × devices +
/// device. Channels are those of the tables, replica by replica, then those of joint ops.
struct Line {
  uint32_t from, to;        ///< Workers.
  uint32_t sends, receives; ///< Most requests that are open at once at each end.
};
struct Network {
  uint32_t workers = 0;
  std::span<const Line> lines; ///< By channel.
};

/// One round of SplitMix64 (Steele, Lea, Flood 2014): a bijection whose output bits all depend on all inputs.
constexpr uint64_t mixBits(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}
constexpr uint64_t randomKeyOfStep(uint64_t seed, uint64_t step) { return mixBits(mixBits(seed) ^ step); }
constexpr uint64_t randomKey(uint64_t keyOfStep, uint32_t stage, uint32_t microbatch) {
  return mixBits(keyOfStep ^ (uint64_t{stage} << 32 | microbatch));
}
/// `microbatch`: counted over all replicas, replica × microbatches + microbatch.
constexpr uint64_t randomKey(uint64_t seed, uint64_t step, uint32_t stage, uint32_t microbatch) {
  return randomKey(randomKeyOfStep(seed, step), stage, microbatch);
}

} // namespace sluice::runtime
