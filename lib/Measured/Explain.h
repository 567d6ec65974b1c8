// Where the model is wrong: what the makespan of a step is longer or shorter by, in parts that add up to it
// exactly. The timeline is run again with the model's costs replaced by measured ones, kind by kind; what
// each replacement adds is its part, and what is left when all are replaced is waiting that no cost explains.
// The parts depend on the order of the replacements, which is always this one.
#pragma once

#include "Measured/Steps.h"

namespace sluice {

struct MakespanPart {
  std::string what; ///< `forwards`, `transfers`, `between rows`, ...
  int64_t time = 0; ///< Below 0: it makes the step shorter. In the unit of the measurement.
};

/// Parts whose sum is the measured makespan of `run` less the predicted one. Fails if a time overflows.
llvm::Expected<std::vector<MakespanPart>> explain(const Measurement &measurement, const StepRun &run);

/// The least time that a message from stage to stage took over all steps: what it took when nothing held it
/// up. Ascending by direction and stages.
struct MessageClass {
  uint32_t from = 0, to = 0;
  bool isGradient = false;
  uint64_t count = 0;
  int64_t least = 0, median = 0, most = 0;
  int64_t predicted = 0; ///< Mean over the microbatches that the model moves.
  int64_t bytes = -1;    ///< If all have the same.
};
std::vector<MessageClass> messageClasses(const Measurement &measurement);

} // namespace sluice
