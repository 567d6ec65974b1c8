// Places unshards and reshards for weights that are sharded between uses. Before each op of a device the
// gathered stages are the next `active` distinct ones it will compute on: what leaves that window is
// resharded, what enters is unsharded. At the end all are resharded. Linear in ops, times `active`.
//
// Source: torch.distributed.pipelining, _add_unshard_reshard, whose default is three stages. An overlap that
// fills the window enters it whole. Stages that leave together are named in ascending order.
#pragma once

#include "IR/Program.h"

namespace sluice {

/// `active` is at least 1. Unshards and reshards that are written are dropped.
Program lowerSharding(const Program &program, uint32_t active = 3);

} // namespace sluice
