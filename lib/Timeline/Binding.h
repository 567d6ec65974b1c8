// Why an op starts when it does: of its prerequisites the one that arrives last, its binding prerequisite.
// Followed back from any op it gives an unbroken chain of ops and transfers down to time 0, since nothing
// starts later than it must. A send, receive or wait takes no time of its own: it starts when it ends. Idle
// time and the critical path are read off such chains.
#pragma once

#include "Timeline/Simulate.h"

#include "Events/Requests.h"
#include "llvm/ADT/SmallVector.h"

#include <memory>

namespace sluice {

class EventBindings;

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
  ~Bindings();

  /// Of the op or overlap that begins at `first`. Ties: program order first, then the lowest device.
  Binding of(OpId first) const;
  /// Start of the op or overlap that begins at `first`.
  int64_t start(OpId first) const { return timeline.start(program, costs, first); }
  /// Of a reduction, tied weight or norm that several devices make together: the ops, waits of started calls
  /// among them, that end no earlier than each of its calls begins. Empty for any other op and for a wait.
  /// Only where communication is inferred.
  llvm::SmallVector<OpId, 4> jointEnds(OpId call) const;

private:
  void considerInputs(const Op &op, Binding &best) const;
  void considerJoint(OpId call, Binding &best) const;
  RequestId callOf(OpId op) const;
  void consider(const Binding &candidate, Binding &best) const;
  OpId overlapBegin(OpId op) const;
  /// Last op before `op` in its program; noOp for the first.
  OpId previous(OpId op) const;

  const Program &program;
  const ProgramIndex &index;
  const CostModel &costs;
  const Timeline &timeline;
  std::unique_ptr<EventBindings> events; // where communication is written
  // Where it is inferred, and devices make calls together: these, and waits of started ones.
  std::unique_ptr<Requests> calls;
  std::vector<OpId> waitOps; // of Requests::waits
  std::vector<OpId> endOf;   // per call: itself, or its wait
};

} // namespace sluice
