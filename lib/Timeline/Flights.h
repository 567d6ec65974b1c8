// Collectives and moves to and from the host as what is under way: when each begins and is done, which ops it
// waits for and which wait for it. Where communication is inferred those of several devices are among them;
// where it is written these are requests of its event graph. Private to lib/Timeline.
#pragma once

#include "Timeline/Binding.h"

namespace sluice {

struct AwaitedMove;

class Flights {
public:
  static constexpr uint32_t none = ~0u;

  struct Member {
    OpId op;     ///< The call or move on one device.
    OpId goesOn; ///< What ends no earlier than the flight: the op itself or its wait; noOp: nothing.
  };
  struct Flight {
    int64_t begin = 0, end = 0;
    uint32_t firstMember = 0, memberCount = 0;
    uint32_t before = none, behind = none; ///< In its queue.
    /// What its begin follows from, over the flights before it: an op, and the time under flights between the
    /// end of that and the begin.
    OpId root = noOp;
    int64_t queued = 0;
    int64_t time() const { return end - begin; }
  };

  /// Keeps references. `calls` are those of several devices where communication is inferred; null: none.
  /// `areMovesTimed`: those of one device take time as well, else they are left out.
  Flights(const Program &program, const Timeline &timeline, const Requests *calls, bool areMovesTimed,
          const Requests *written);

  uint32_t size() const { return static_cast<uint32_t>(flights.size()); }
  const Flight &operator[](uint32_t flight) const { return flights[flight]; }
  llvm::ArrayRef<Member> membersOf(uint32_t flight) const {
    return llvm::ArrayRef(members).slice(flights[flight].firstMember, flights[flight].memberCount);
  }
  /// Of a call or move, or the wait for one; `none` for any other op.
  uint32_t of(OpId op) const;
  /// What binds an unstarted call or move, or a wait, beside program order; nothing for others.
  std::optional<Binding> bindingOf(OpId op) const;

private:
  struct Place {
    OpId op;
    uint32_t flight;
    OpId own; ///< The call or move itself.
  };
  void addJoint(const Requests &calls);
  void addOwn(const Requests *joint);
  void findRoot(Flight &flight);
  OpId previous(OpId op) const;
  int64_t arrivalAt(OpId op) const;
  const Place *placeOf(OpId op) const;

  const Program &program;
  const Timeline &timeline;
  std::vector<Flight> flights;
  std::vector<Member> members;
  std::vector<Place> places; // ascending by op
};

} // namespace sluice
