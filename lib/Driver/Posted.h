// A program as it is run: with every send and receive that blocks written out.
#pragma once

#include "Driver/Compilation.h"
#include "Passes/LowerCommunication.h"
#include "Passes/PostCells.h"

namespace sluice {

/// The cells of a table with the waits of PyTorch's runtime, or what just_in_time infers, written out.
/// Nothing where the program is run as it is: written by hand, or with communication that `early` infers,
/// which completes under every rule.
inline std::optional<Program> postedProgram(const Instance &instance) {
  const Program &program = instance.program;
  if (program.isExplicit && program.receivesWaitAtUse)
    return postCells(program);
  if (!program.isExplicit && instance.costs.communication == "just_in_time")
    return lowerCommunication(program, *instance.index, CommunicationPlacement::JustInTime);
  return std::nullopt;
}

} // namespace sluice
