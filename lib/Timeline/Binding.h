// Why an op starts when it does: of its prerequisites the one that arrives last, its binding prerequisite.
// Followed back from any op it gives an unbroken chain of ops and transfers down to time 0, since nothing
// starts later than it must. Idle time and the critical path are read off such chains.
#pragma once

#include "Timeline/Simulate.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace sluice {

struct Binding {
  OpId op = noOp; ///< First op of its overlap; noOp: the op starts at time 0 and waits for nothing.
  EdgeKind kind = EdgeKind::Order;
  int64_t arrival = 0;  ///< When what it makes has arrived: the start of the op that waits.
  int64_t transfer = 0; ///< Part of that time spent between devices.
};

/// Keeps references to what it is made from.
class Bindings {
public:
  Bindings(const Program &program, const ProgramIndex &index, const CostModel &costs,
           const Timeline &timeline);

  /// Of the op or overlap that begins at `first`. Ties: program order first, then the lowest device.
  Binding of(OpId first) const;
  /// Start of the op or overlap that begins at `first`.
  int64_t start(OpId first) const { return timeline.start(program, costs, first); }
  /// The calls, one a device, that end together with `reduce`; itself among them. Empty if it is no reduction
  /// of a stage with several copies.
  llvm::ArrayRef<OpId> jointCalls(OpId reduce) const;

private:
  void considerInputs(const Op &op, Binding &best) const;
  void considerJoint(OpId reduce, Binding &best) const;
  void consider(const Binding &candidate, Binding &best) const;
  OpId overlapBegin(OpId op) const;
  /// Last op before `op` in its program; noOp for the first.
  OpId previous(OpId op) const;

  const Program &program;
  const ProgramIndex &index;
  const CostModel &costs;
  const Timeline &timeline;
  // Reductions of stages with several copies: the calls that end together, by any op of them.
  llvm::DenseMap<OpId, uint32_t> callOf;
  std::vector<llvm::SmallVector<OpId, 2>> calls;
};

} // namespace sluice
