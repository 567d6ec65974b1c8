// Megatron-LM's order of an interleaved schedule: for each device a list of chunks, `+(c + 1)` a forward of
// its chunk c and `-(c + 1)` a backward, as convert_schedule_table_to_order gives it for CUDA graphs
// (NVIDIA/Megatron-LM@d98e8a64 megatron/core/pipeline_parallel/schedules.py). Chunk c of device d is stage
// c * P + d; microbatches are not written, the n-th forward of a chunk is that of microbatch n.
//
// Texts: JSON, `[[1, 1, -1, -1], ...]`, or a line a device as Python prints a list, with or without
// brackets, commas and a label such as `rank 0:`.
#pragma once

#include "Formats/Format.h"

namespace sluice {

std::optional<FormattedSchedule> readMegatron(SourceManager &sources, llvm::ArrayRef<Span> texts,
                                              const ReadOptions &options, Diagnostics &diagnostics,
                                              std::vector<std::string> &lost);
/// JSON, a device a line. Refuses placements that are not interleaved, halves, recomputes and microbatches
/// out of order.
std::optional<std::string> writeMegatron(const FormattedSchedule &schedule, std::vector<std::string> &lost,
                                         std::string &error);

} // namespace sluice
