// Where every device repeats one block of ops, each time for the microbatches a fixed number further on: the
// steady state of a schedule as its order shows it, before any time is known. What the timeline repeats there
// is Steady.h.
#pragma once

#include "IR/Program.h"

#include <optional>

namespace sluice {

/// Part of one device's program: from `first` + `length` on to `end` every op is the one `length` before it,
/// `Repetition::microbatches` further on. Empty, with length 0, on a device without ops.
struct RepeatedOps {
  OpId first = 0, end = 0;
  uint32_t length = 0;

  bool holds(OpId op) const { return op >= first && op < end; }
  friend bool operator==(const RepeatedOps &, const RepeatedOps &) = default;
};

/// Ops whose time is that of their device alone and follows from their stage and microbatch: what computes,
/// and what takes no time whatever the costs.
inline bool isPlain(const Op &op) {
  return op.isCompute() || op.kind == OpKind::Drop || op.kind == OpKind::Zero || op.kind == OpKind::Update ||
         op.kind == OpKind::Scale;
}

struct Repetition {
  uint32_t microbatches = 0; ///< Units of Program::microbatches; whole microbatches where they are split.
  std::vector<RepeatedOps> devices;
};

/// The shortest blocks around the middle of each device's program that repeat with one number of microbatches
/// on all devices, as far as they do, at least twice. Nothing where some device repeats none. Linear in the
/// ops that repeat; little is looked at where none do.
std::optional<Repetition> findRepetition(const Program &program);

/// Shortens each part to where what an op gets from another stage is made one block of that device behind
/// what the op one block before gets, what it uses of its own stage was made before, and its gradients exist
/// as that one's do. False where some device keeps no two blocks. Skip edges and written communication are
/// not looked at.
bool narrowToEdges(const Program &program, const ProgramIndex &index, Repetition &repetition);

} // namespace sluice
