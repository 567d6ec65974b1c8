// Order JSON: one schedule at one setting, as scripts around other systems' generators write it down.
//
//   {"schedule": "1F1B", "cost": {"F": 1, "B": 1, "W": 1}, "comm": 0,
//    "order": [["F0@0", "F1@0", "BW0@0", "BW1@0"], ["F0@1", "BW0@1", "F1@1", "BW1@1"]]}
//
// A row of `order` is a device. `F3@1` is the forward of microbatch 3 on stage 1, `B` the input half of its
// backward, `W` the weight half, `BW` the whole; `O[F3@1|BW1@1]` runs both as one op. `cost` is what an op of
// one stage takes, in ticks, `O` what an overlap takes; `comm` is added between devices. A stage that works
// on several devices has the direction of its pipeline in the microbatch, so placement follows from the rows.
// With cells such as `SEND_F3@1:4096` (the output of stage 1 for microbatch 3, 4096 bytes; RECV_F, SEND_B,
// RECV_B likewise, bytes or none) communication is what is written; without any it is inferred.
#pragma once

#include "Formats/Format.h"
#include "Formats/Json.h"

namespace sluice {

std::optional<FormattedSchedule> readOrderJson(const JsonValue &root, Span text, const ReadOptions &options,
                                               Diagnostics &diagnostics, std::vector<std::string> &lost);

} // namespace sluice
