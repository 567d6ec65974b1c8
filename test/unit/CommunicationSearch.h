// The event graph of an explicit program, each event with the list of what must have happened before it, and
// what can be read off it by brute force: the events that never happen, and the shortest cycle among those.
// A second judge beside the machine of CommunicationMachine.h, and the only one for cycles.
#pragma once

#include "CommunicationMachine.h"

#include <optional>

namespace sluice::slow {

struct EventGraph {
  struct Event {
    uint32_t device = 0, statement = 0;
    bool never = false; ///< It waits for something that no program posts.
    std::vector<uint32_t> needs;
    bool happens = false;
  };
  /// Per device and statement its begin and end, then per place its ready and done.
  std::vector<Event> events;
  std::vector<std::vector<uint32_t>> beginOf; ///< end is the next number.
  std::vector<uint32_t> readyOf;              ///< done is the next number.

  EventGraph(const Posting &posting, const Blocking &blocking);

  bool isDone(uint32_t place) const { return events[readyOf[place] + 1].happens; }
  /// The statement whose end does not happen; the number of statements if all do.
  uint32_t stands(uint32_t device) const;
  /// Fewest steps from one device to another on a cycle of statements where devices stand and requests they
  /// have posted; nothing if what is stuck waits for what never comes. What a device has not come to yet
  /// waits for where it stands, and for that alone. From each such event in turn to all others.
  std::optional<uint32_t> fewestHops() const;
};

} // namespace sluice::slow
