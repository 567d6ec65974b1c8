// Runs the device programs against each other without times: a device goes on until its next op lacks a
// result of another device. Prerequisites only ever accumulate, so what is left standing does not depend
// on the order of turns, and a program that stops short has a cycle. Sends and receives are passed over: what
// they add is a matter of channels (lib/Events). Linear in ops, one byte per (stage, microbatch). Internal to
// lib/Verify.
#pragma once

#include "Verify/Context.h"

namespace sluice {

class ComputeOrder {
public:
  /// With `joinCollectives` the calls of a collective of several devices wait for each other.
  ComputeOrder(const Program &program, const Copies &copies, bool joinCollectives);

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
  /// What `op` takes of other stages: the stage and microbatch, and which of its results.
  struct Need {
    uint32_t stage, microbatch;
    bool isBackward;
  };
  llvm::SmallVector<Need, 2> needsOf(const Op &op) const;
  /// Ops that have run on all devices.
  uint64_t finished() const;
  /// A call that other devices make as well; and whether two ops are calls of one name.
  bool joins(const Op &op) const {
    return !calls.empty() && isCall(op) && calls[nameOf(op)].members.size() > 1;
  }
  static bool isSameCall(const Op &a, const Op &b) {
    return a.kind == b.kind &&
           (a.kind == OpKind::Norm ||
            (a.kind == OpKind::ReduceTied ? a.microbatch == b.microbatch : a.stage == b.stage));
  }
  llvm::ArrayRef<uint32_t> membersOf(const Op &call) const { return calls[nameOf(call)].members; }

private:
  // A device that finds a result missing leaves a mark beside it; whoever makes the result wakes the devices
  // that may stand at it.
  enum : uint8_t { forwardDone = 1, backwardDone = 2, forwardAwaited = 4, backwardAwaited = 8 };

  size_t pair(uint32_t stage, uint32_t microbatch) const {
    return static_cast<size_t>(stage) * program.microbatches + microbatch;
  }
  static bool isCall(const Op &op) {
    return op.kind == OpKind::Reduce || op.kind == OpKind::ReduceTied ||
           (op.kind == OpKind::Norm && !op.has(Local));
  }
  uint32_t nameOf(const Op &op) const {
    return op.kind == OpKind::Reduce       ? op.stage
           : op.kind == OpKind::ReduceTied ? program.stages + op.microbatch
                                           : static_cast<uint32_t>(calls.size()) - 1;
  }
  void nameCalls();
  template <bool hasSkips> void advance(uint32_t device);
  template <bool hasSkips> bool mustWait(const Op &op, uint32_t device);
  template <bool hasSkips> void finish(const Op &op);
  bool isMissing(uint32_t stage, uint32_t microbatch, bool isBackward, uint32_t device);
  bool mustMeet(const Op &op, uint32_t device);

  const Program &program;
  const Copies &copies;
  std::vector<uint8_t> marks; // per pair
  std::vector<OpId> cursor;   // per device
  /// One name of calls: its members, how often each has called and waited, and who has come to the n-th.
  struct Call {
    std::vector<uint32_t> members; // devices, ascending
    std::vector<uint32_t> made, waited;
    std::vector<uint32_t> arrived; // per number of the call
  };
  std::vector<uint8_t> standsAtCall; // per device: it has arrived at the call in front of it
  std::vector<Call> calls;           // by stage, then by tied weight, then the norm; empty: none joins
  std::vector<uint32_t> runnable;
};

} // namespace sluice
