// Time per sample in three parts that add up to it, exactly: what its kernels take, what devices stand idle
// although transfers are free, and what transfers add (LANGUAGE.md section 7, Sweeps). With N samples of all
// replicas, makespan T, T0 the makespan with transfers, collectives and host moves that take no time, and the
// mean K over the devices of their time in computations and updates:
//
//   T / N  =  K / N  +  (T0 - K) / N  +  (T - T0) / N
//
// K is the `ideal` of the timeline of T0. It is that of T too, unless transfers or collectives occupy
// devices.
#pragma once

#include "Timeline/Figures.h"

namespace sluice {

/// Ticks or nanoseconds a sample, or differences of them.
struct TimeSplit {
  Rational total; ///< Not summed up from the others.
  Rational kernel, bubble, transfer;
  friend bool operator==(const TimeSplit &, const TimeSplit &) = default;
};

/// `program` is the one that runs. Nothing if CostModel::batch is not known or a fraction leaves 64 bits.
std::optional<TimeSplit> timePerSample(const Program &program, const CostModel &costs,
                                       const Figures &figures);
/// `to` − `from`, part by part; nothing if a fraction leaves 64 bits.
std::optional<TimeSplit> changeOf(const TimeSplit &from, const TimeSplit &to);

/// Mean over whole microbatches of the compute time that all devices together spend on one, in ticks or
/// nanoseconds; updates do not count. Nothing if it leaves 64 bits.
std::optional<Rational> computePerMicrobatch(const Program &program, const CostModel &costs);

} // namespace sluice
