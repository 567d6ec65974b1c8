// Why an op starts when it does: of its prerequisites the one that arrives last, its binding prerequisite.
// Followed back from any op it gives an unbroken chain of ops and transfers down to time 0, since nothing
// starts later than it must. A started op or a wait, and a send or receive that does not block its devices,
// takes no time of its own: it starts when it ends. Idle time and the critical path are read off such chains.
#pragma once

#include "Timeline/Simulate.h"

#include "Events/Requests.h"
#include "llvm/ADT/SmallVector.h"

#include <memory>

namespace sluice {

class EventBindings;
class Flights;

struct Binding {
  OpId op = noOp; ///< First op of its overlap; noOp: the op starts at time 0 and waits for nothing.
  EdgeKind kind = EdgeKind::Order;
  int64_t arrival = 0; ///< When what it makes has arrived: the start of the op that waits.
  int64_t transfer =
      0; ///< Part of that time under transfers, collectives and host moves, or queueing for one.
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
  int64_t end(OpId op) const { return timeline.end[op]; }
  /// Whether the time of an op itself is that of a transfer, a collective or a host move.
  bool isMove(OpId op) const;
  /// Collectives and host moves; where communication is inferred, those of several devices among them. Null
  /// where there are none that delay anything.
  const Flights *moves() const { return flights.get(); }

private:
  void considerInputs(const Op &op, Binding &best) const;
  void consider(const Binding &candidate, Binding &best) const;
  OpId overlapBegin(OpId op) const;
  /// Last op before `op` in its program; noOp for the first.
  OpId previous(OpId op) const;

  const Program &program;
  const ProgramIndex &index;
  const CostModel &costs;
  const Timeline &timeline;
  std::unique_ptr<EventBindings> events; // where communication is written
  std::unique_ptr<Requests> calls;       // where it is inferred, and devices make calls together
  std::unique_ptr<Flights> flights;
};

} // namespace sluice
