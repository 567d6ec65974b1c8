// Whole backwards from halves and back. Both leave the members of overlaps as they are, and are linear in
// ops.
#pragma once

#include "IR/Program.h"

namespace sluice {

/// An input half and the weight half of the same stage and microbatch right behind it become one backward
/// (torch.distributed.pipelining, _merge_bw).
Program mergeHalves(const Program &program);
/// Each backward becomes its input half and, right behind it, its weight half.
Program splitBackwards(const Program &program);

} // namespace sluice
