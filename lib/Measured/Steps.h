// A trace laid over a program: when each op ran in each step, what stood between the ops, and how long
// messages took. Everything behind it counts in one unit, that of `costs`, in which the model's times and
// those of the trace are whole numbers.
#pragma once

#include "Formats/TraceJson.h"
#include "Timeline/Simulate.h"

#include "llvm/Support/Error.h"

namespace sluice {

/// One step of one replica.
struct StepRun {
  uint64_t step = 0;
  std::vector<int64_t> begin, end; ///< Per op; below 0: the trace has no event for it.
  /// Per op: what lies between the op before it on its device and its begin and is no waiting.
  std::vector<int64_t> between;
  int64_t first = 0, last = 0; ///< Begin of the first row and end of the last.

  int64_t makespan() const { return last - first; }
  bool has(OpId op) const { return end[op] >= 0; }
  int64_t duration(OpId op) const { return end[op] - begin[op]; }
};

/// A message, from what is known of its two ends.
struct MessageRun {
  uint64_t step = 0;
  uint32_t from = 0, to = 0; ///< Stages.
  uint32_t microbatch = 0;
  bool isGradient = false;
  /// How long it was under way at most: from when both its ends had begun to the end of the wait for it.
  int64_t time = 0;
  int64_t queued = 0; ///< Of that behind other messages, as far as it is told.
  int64_t bytes = -1; ///< Below 0: not known.

  int64_t ownTime() const { return time - queued; }
};

struct Measurement {
  const Program &program;
  const ProgramIndex &index;
  CostModel costs;    ///< Those of the model, in the common unit.
  Timeline predicted; ///< Of `costs`.
  bool isModeled = false;
  bool hasWaits = false;
  std::vector<StepRun> steps; ///< Complete ones, ascending.
  std::vector<MessageRun> messages;
  uint64_t incomplete = 0; ///< Steps that are left out.
  uint32_t replicas = 1;   ///< In the trace.

  Measurement(const Program &program, const ProgramIndex &index) : program(program), index(index) {}
};

/// Lays the events of `process` over the program. Fails with what a user can do if an op of a device is
/// another one than the program's, if no step is complete, if one counts ticks and the other time, or if
/// times do not fit 64 bits. `sources` has the texts of the trace and of the schedule.
llvm::Expected<Measurement> measure(const Program &program, const ProgramIndex &index, const CostModel &costs,
                                    const Trace &trace, uint32_t process, const SourceManager &sources);

/// A failure with a message.
llvm::Error refusal(const std::string &message);

} // namespace sluice
