// The queue lab: a backlog that arrivals add to and a server works off, step by step. It has no stages and
// no forward or backward wave, so nothing of it can enter a schedule; it only shows what it means that
// admissions stop.
#pragma once

#include "Sema/Evaluate.h"

namespace sluice {

struct QueueStep {
  Rational time;    ///< Nanoseconds since the start.
  Rational backlog; ///< Requests waiting then.
};

struct QueueRun {
  std::string name;
  Rational arrival, service; ///< Requests a nanosecond.
  Rational step;             ///< Nanoseconds.
  std::vector<QueueStep> steps;
  /// When nothing waits any more; nothing where arrivals keep up with service.
  std::optional<Rational> drainTime;
};

/// Runs a queue until it has drained, or for `atMost` steps. Reports 104, 106 and 114.
std::optional<QueueRun> runQueue(const CheckedBlock &queue, Evaluator &evaluator, unsigned atMost);

/// A line a step, then what it means.
std::string queueText(const QueueRun &run);

} // namespace sluice
