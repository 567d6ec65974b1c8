// Measured costs: the median time of each op of each stage over the steps of a trace, for the file that `cost
// from` reads (docs/profiles.md), and what the messages say of links.
#pragma once

#include "Measured/Steps.h"

#include <map>

namespace sluice {

struct MeasuredPoint {
  int64_t samples = -1; ///< Of the microbatch; below 0: not known.
  Rational time;        ///< Median, microseconds.
  Rational least, most;
  uint64_t count = 0;
  uint64_t outliers = 0; ///< That took more than one and a half times the median.
  uint64_t worstStep = 0;
};

struct Calibration {
  /// By position in profileOps() and stage; points ascend by samples.
  std::map<std::pair<size_t, uint32_t>, std::vector<MeasuredPoint>> ops;
  uint64_t steps = 0; ///< That were looked at.
  bool leavesFirstOut = false;
  uint64_t overlaps = 0; ///< Events that time two ops as one, which no profile holds.
  /// Other ops and rows with their whole time, in microseconds.
  std::map<std::string, Rational> others;
};

/// `samples` are those of each whole microbatch, if they are known, of `splits` units each; an event that
/// tells its own counts before them. Of a joint reduction the member that came last counts. Fails if the
/// trace counts ticks or has none of the ops of a profile.
llvm::Expected<Calibration> calibrate(const Trace &trace, llvm::ArrayRef<int64_t> samples, uint32_t splits);

/// The profile as a file, ended by '\n'.
std::string profileText(const Calibration &calibration);
/// What was measured and what is uncertain of it, for people.
std::string calibrationText(const Calibration &calibration);
/// What the messages of a measurement say of the links they went over: latency and bandwidth where they have
/// several sizes, of an op's boundary where the messages do not tell theirs.
std::string linksText(const Measurement &measurement);

} // namespace sluice
