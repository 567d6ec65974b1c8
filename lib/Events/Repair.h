// The smallest change to a stuck program that lets it complete. What is offered has been applied to a copy,
// and the copy has run: no local order is broken, no more pairs are crossed, every device reaches its end.
//
// Any single move that frees a program whose pairs are right puts y before x, and moves one of them, on some
// hop of every cycle, where x is the statement that the device stands at and y a later one that its neighbour
// waits for. So one shortest cycle gives all candidates: group x with y, move y before x, move x behind y,
// and, where groups complete as a whole, split one. Fewest edits win, then the shortest distance, then a
// group, then a receive moved earlier. With one edit that is least; from two on only the nearest places are
// branched on, up to four edits; beyond that one change of the whole program is tried.
//
// Each try runs the whole program, so large ones get fewer: some 30 million ops in all, and never less than
// eight tries.
#pragma once

#include "Events/Completion.h"

namespace sluice {

/// One edit, by ops of the program as it was.
struct RepairEdit {
  enum class Kind : uint8_t {
    Group, ///< `op` and `other` are posted at one moment.
    Lift,  ///< `op` moves in front of the statement of `other`.
    Lower, ///< `op` moves behind the statement of `other`.
    Split, ///< A group falls into two; `op` begins the second, `other` the first.
  };
  /// Which instances of the statement that `op` comes from: this one, all of its device, or all. Where there
  /// is only one, that one.
  enum class Scope : uint8_t { One, Device, All };
  Kind kind;
  Scope scope = Scope::One;
  uint32_t device;
  OpId op, other;
  bool wholeGroup = false;   ///< The group of `op` goes with it.
  bool atPlaceOfOp = true;   ///< Group: `other` comes to `op`, or the other way round.
  bool areNeighbours = true; ///< Group: nothing stands between them.
};

struct Repair {
  enum class Change : uint8_t {
    None,
    GroupNeighbours, ///< Sends and receives that follow each other are posted together, on all devices.
    InferEarly,      ///< The written communication gives way to `inferred(early)`.
    Deepen,          ///< `channel = eager(depth)`.
  };
  std::vector<RepairEdit> edits; ///< Empty if the whole program changes.
  Change change = Change::None;
  uint32_t depth = 0;
  Program repaired; ///< Of Deepen the program as it was.
};

/// `cycle`: of `program` under `rules`; not empty. Nothing if none of what is tried lets it complete.
std::optional<Repair> smallestRepair(const Program &program, const ChannelRules &rules,
                                     const WaitCycle &cycle);

} // namespace sluice
