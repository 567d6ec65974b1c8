// A second, naive reading of what a schedule means, for the tests to hold against the product: repeated
// scans and maps, written from the language's definition and sharing no code with verify, simulate or the
// figures. Times count CostModel::unit, sizes bytes. Quadratic: for schedules of a few hundred ops.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace sluice::slow {

/// What one step of a run must wait for: another step's end, plus a transfer where devices differ.
struct Prerequisite {
  size_t step = 0;
  int64_t transfer = 0;
};

/// An overlap or a single op while it runs. A joint reduction starts and ends when its last member is
/// ready. Prerequisites: the step before on this device first, then those of the members in order.
struct Step {
  uint32_t device = 0;
  OpId first = 0, endOp = 0; ///< Its ops.
  int64_t duration = 0, start = -1, finish = -1;
  bool never = false; ///< A call that some other member of the reduction never makes.
  bool done = false;
  std::vector<Prerequisite> prerequisites;
};

/// Time that an overlap or a single op computes; 0 for what is no compute op.
int64_t computeTime(const Program &program, const CostModel &costs, OpId first, OpId end);

enum class Transfers { Given, Free };
/// Steps device by device, in program order.
struct Run {
  bool complete = true; ///< Every device reached the end of its program.
  std::vector<Step> steps;
  std::vector<size_t> stepOf; ///< Per op.
  /// By producer and consumer, where a message is under way later than its producer's end.
  std::map<std::pair<OpId, OpId>, int64_t> underWaySince;
  int64_t makespan() const;
};
Run run(const Program &program, const CostModel &costs, Transfers transfers = Transfers::Given);

struct DeviceFigures {
  int64_t busy = 0, useful = 0, idle = 0;
  int64_t fill = 0, drain = 0, stallTransfer = 0, imbalance = 0, stallUpstream = 0;
  int64_t peakActivation = 0, peakSaved = 0, peakPending = 0; ///< Pairs of stage and microbatch.
  int64_t peakMemory = 0;
};
struct Figures {
  int64_t makespan = 0, transferExposed = 0;
  int64_t transfers = 0, bytesMoved = 0; ///< Messages between devices.
  /// Nothing where the denominator is 0.
  std::optional<Rational> ideal, bubbleTime, overheadRatio, idleFraction, utilization, spanBubbleRate;
  std::vector<DeviceFigures> devices;
};
/// What follows from the times of all devices: imbalance, upstream, and the figures of the schedule.
void addShares(int64_t largestBusy, int64_t largestSpan, Figures &figures);
/// Figures of a complete run under the given transfers.
Figures measure(const Program &program, const CostModel &costs, const Run &run);

/// The part of `measure` that counts what is live: the peaks of each device.
void measureLive(const Program &program, const CostModel &costs, const Run &run, Figures &figures);

/// Where a rule fails: noDevice and noMicrobatch where it has none.
struct Fault {
  unsigned rule;
  uint32_t device, stage, microbatch;
  friend auto operator<=>(const Fault &, const Fault &) = default;
};

/// Stands for any of 302, 304 and 305: which of them names a program that never ends is a matter of words.
inline constexpr unsigned stuck = 302;

/// Verdict of families 2, 3 and 5 and of placement, by rule numbers. `failing` holds every condition that
/// fails under some reading of the definition; `blamed` the rules that are left when causes silence their
/// consequences, `stuck` not among them, one set for each reading that makes a difference.
struct Verdict {
  std::set<Fault> failing;
  std::set<std::set<unsigned>> blamed;
  /// No error; warnings do not count.
  bool isLegal() const;
  bool fails(unsigned rule) const;
  /// Every failing condition, for failures.
  std::string str() const;
};
Verdict judge(const Program &program, const CostModel &costs);

} // namespace sluice::slow
