// DeepSpeed's instruction lists, as `for step in schedule: print(step)` shows them, a step a line:
//
//   stage 0
//   [LoadMicroBatch(buffer_id=0), ForwardPass(buffer_id=0)]
//   [SendActivation(buffer_id=0)]
//
// or as JSON, a list of steps a stage, each a list of instructions in that form or as `ForwardPass0`
// (deepspeedai/DeepSpeed@83fd8f87 deepspeed/runtime/pipe/schedule.py, PipeInstruction.__repr__). Stage s is
// device s; instructions with `phase=` are those of DualPipeVSchedule, two stages a device.
//
// Microbatches are not written. The n-th ForwardPass of a stage is that of microbatch n, and it lies in its
// buffer until the next forward into that buffer; all others mean what lies in their buffer.
#pragma once

#include "Formats/Format.h"

namespace sluice {

std::optional<FormattedSchedule> readDeepSpeed(SourceManager &sources, llvm::ArrayRef<Span> texts,
                                               const ReadOptions &options, Diagnostics &diagnostics,
                                               std::vector<std::string> &lost);

} // namespace sluice
