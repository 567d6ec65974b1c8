// A program as it is run: with every send and receive that blocks written out. What is verified, and what the
// timeline is of, which differ where the cluster says how long something holds a device up.
#pragma once

#include "Driver/Compilation.h"
#include "Passes/OverlapCollectives.h"
#include "Passes/PostedProgram.h"

namespace sluice {

/// As PostedProgram.h.
inline std::optional<Program> postedProgram(const Instance &instance) {
  return postedProgram(instance.program, *instance.index, instance.costs);
}

/// The program that the timeline is of, if another than the instance's: cells of a table with the waits of
/// their runtime; under `transfers = blocking` what early infers written out, each message blocking both of
/// its devices; under `collectives = overlapped` with reductions started. What just_in_time infers takes no
/// time of its own. A file with skip edges does not say `transfers = blocking`.
inline std::optional<Program> timedProgram(const Instance &instance) {
  std::optional<Program> timed;
  if (instance.program.isExplicit && instance.program.receivesWaitAtUse)
    timed = postCells(instance.program);
  else if (!instance.program.isExplicit && instance.costs.transfersBlock)
    timed = lowerCommunication(instance.program, *instance.index, CommunicationPlacement::Early);
  if (instance.costs.collectivesOverlap)
    timed = overlapCollectives(timed ? *timed : instance.program);
  return timed;
}

} // namespace sluice
