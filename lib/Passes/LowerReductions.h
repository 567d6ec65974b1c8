// Places the reductions of gradients: on each device, that of a stage right behind the op (or overlap) that
// makes the stage's last contribution there. Reductions that are written are dropped. Linear in ops.
//
// Source: torch.distributed.pipelining, _add_reduce_grad, which counts contributions up to the number of
// microbatches; that is the same where a stage has one copy and every microbatch a backward.
#pragma once

#include "IR/Program.h"

namespace sluice {

Program lowerReductions(const Program &program);

} // namespace sluice
