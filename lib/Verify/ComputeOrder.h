// Runs the device programs against each other without times: a device goes on until its next op lacks a
// result of another device. Prerequisites only ever accumulate, so what is left standing does not depend
// on the order of turns, and a program that stops short has a cycle.
//
// Either the order of the data alone is followed, or written communication over unbounded channels: a result
// is then there once its send is posted, and lacks in its receive (or, where receives wait at use, in the op
// that takes it). Posts are never held up, so those of a group are all made as soon as its device gets there.
// Linear in ops, one byte per (stage, microbatch). Internal to lib/Verify.
#pragma once

#include "Verify/Context.h"

#include <optional>

namespace sluice {

class ComputeOrder {
public:
  /// With `joinCollectives` the reductions of a stage with several copies wait for each other.
  enum class Follow : uint8_t { Data, Messages };
  ComputeOrder(const Program &program, const Copies &copies, bool joinCollectives,
               Follow follow = Follow::Data);

  /// Lets a result count as there from the start, for producers that the program lacks.
  void assumeForward(uint32_t stage, uint32_t microbatch) { marks[pair(stage, microbatch)] |= forwardDone; }
  void assumeBackward(uint32_t stage, uint32_t microbatch) { marks[pair(stage, microbatch)] |= backwardDone; }

  /// True if every device reaches the end of its program.
  bool run();

  /// The op each device stands at; its program's end where it has finished.
  llvm::ArrayRef<OpId> fronts() const { return cursor; }
  bool isStuck(uint32_t device) const { return cursor[device] != program.deviceBegin[device + 1]; }
  /// Whether the result is still missing and has to come from a device other than `device`.
  bool lacksForward(uint32_t stage, uint32_t microbatch, uint32_t device) const;
  bool lacksBackward(uint32_t stage, uint32_t microbatch, uint32_t device) const;
  /// What `op` must find on another device: the stage and microbatch, and which of its results.
  struct Need {
    uint32_t stage, microbatch;
    bool isBackward;
  };
  std::optional<Need> needOf(const Op &op) const;
  /// Ops that have run on all devices.
  uint64_t finished() const;
  bool joins(const Op &op) const {
    return op.kind == OpKind::Reduce && joinCollectives && copies.count(op.stage) > 1;
  }

private:
  // A device that finds a result missing leaves a mark beside it; whoever makes the result wakes the
  // device. Only the consumer's own device can have left it, so the mark needs no name.
  enum : uint8_t { forwardDone = 1, backwardDone = 2, forwardAwaited = 4, backwardAwaited = 8 };

  size_t pair(uint32_t stage, uint32_t microbatch) const {
    return static_cast<size_t>(stage) * program.microbatches + microbatch;
  }
  template <Follow followed> void advance(uint32_t device);
  template <Follow followed> OpId statementEnd(OpId first) const;
  template <Follow followed> bool mustWait(const Op &op, uint32_t device);
  template <Follow followed> void finish(const Op &op);
  bool join(uint32_t device, uint32_t stage);

  const Program &program;
  const Copies &copies;
  const bool joinCollectives;
  const Follow follow;
  const bool isReceived;         // results come by receives that hold up their device
  std::vector<uint8_t> marks;    // per pair
  std::vector<OpId> cursor;      // per device
  std::vector<uint32_t> arrived; // per stage: devices that stand at its present reduction
  std::vector<uint32_t> runnable;
};

} // namespace sluice
