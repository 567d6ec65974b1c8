// The cells of a PyTorch schedule as its runtime runs them: sends and receives go on while their device does,
// receives are waited for right before their consumer, sends at the end of the step
// (torch/distributed/pipelining/schedules.py, _PipelineScheduleRuntime). What the waits add is what makes
// late receives hang where one queue serves a device.
#pragma once

#include "IR/Program.h"

namespace sluice {

/// `program` with its sends and receives started and the waits that this implies. A receive that no op behind
/// it uses is waited for at the end. Linear in ops.
Program postCells(const Program &program);

} // namespace sluice
