// A program as it is run and verified, where that is another than the one written: with every send and
// receive that blocks.
#pragma once

#include "IR/CostModel.h"
#include "Passes/LowerCommunication.h"
#include "Passes/PostCells.h"

namespace sluice {

/// The cells of a table with the waits of PyTorch's runtime, or what just_in_time infers, written out.
/// Nothing where the program is run as it is: written by hand, or with communication that `early` infers,
/// which completes under every rule. `index` is the program's.
inline std::optional<Program> postedProgram(const Program &program, const ProgramIndex &index,
                                            const CostModel &costs) {
  if (program.isExplicit && program.receivesWaitAtUse)
    return postCells(program);
  if (!program.isExplicit && costs.communication == "just_in_time")
    return lowerCommunication(program, index, CommunicationPlacement::JustInTime);
  return std::nullopt;
}

} // namespace sluice
