// Traces of executors and of `simulate -o t.trace.json` (Trace Event Format, docs.google.com/document/d/
// 1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU, JSON object form), as far as they tell when ops ran: events
// whose category begins with `op`, `message` or `wait`, as "X" events, pairs of "B" and "E", or instants.
// docs/compare.md lists the fields. Other events are passed over and counted. The events are read one by one.
#pragma once

#include "Support/Diagnostics.h"
#include "Support/Rational.h"

#include <optional>

namespace sluice {

struct TraceEvent {
  enum class Kind : uint8_t { Op, Message, Wait };
  Kind kind = Kind::Op;
  uint32_t name = 0;    ///< Into Trace::names: `forward(0, 3)`; of messages also `activation(0, 3)`.
  uint32_t process = 0; ///< Replica of a measured trace, schedule of a modeled one; from 0.
  uint32_t device = 0;  ///< Of a message the end that tells of it; of a modeled one the receiving device.
  uint32_t from = ~0u;  ///< Of a message, where it is told: the device that sends.
  uint64_t step = 0;    ///< 0 where the trace has one step.
  Rational begin, end;  ///< Microseconds, or ticks of a modeled trace that counts them.
  Rational queued;      ///< Of a modeled message: how long it stood in a queue before `begin`.
  int64_t bytes = -1;   ///< Of a message; below 0: not told.
  int64_t samples = -1; ///< Of the microbatch of an op; below 0: not told.
  int64_t channel = -1, number = -1; ///< Of a measured message: what pairs its two ends, if it is told.
  Span span;                         ///< In the text.
};

struct Trace {
  bool isModeled = false; ///< Made by `simulate`.
  bool ticks = false;     ///< Of a modeled one: times are ticks.
  /// Of a measured trace the one schedule that ran, of a modeled one those of its processes.
  std::vector<std::string> schedules;
  std::string parameters; ///< `P = 4, M = 8`; empty if it is not told.
  Rational origin;        ///< When time 0 is, in microseconds of a clock of the machine.
  bool hasOrigin = false;
  uint64_t ignored = 0;    ///< Events that are none of ours.
  uint64_t unfinished = 0; ///< Begun and not ended.
  uint64_t dropped = 0;    ///< Not recorded for lack of room, as the trace says.
  std::vector<std::string> names;
  std::vector<TraceEvent> events;
};

/// Nothing if there was an error, which a finding names with its line: no JSON (101, 103), no `traceEvents`
/// or an event of ours without name or time (114), or of another kind (101, 105, 106).
std::optional<Trace> readTrace(const SourceManager &sources, Span text, Diagnostics &diagnostics);

/// Adds the events of `more`, of another process of the same run, their times moved to the origin of `trace`
/// where both tell one. False if a time does not fit a 64-bit fraction.
bool addTrace(Trace &trace, Trace more);

} // namespace sluice
