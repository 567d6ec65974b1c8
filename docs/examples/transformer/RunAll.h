// Definition of runAll, for Double.cpp and Float.cpp.
#pragma once

#include "Runs.h"
#include "Training.h"

#include "bidirectional.h"
#include "bidirectional_replicas.h"
#include "folded.h"
#include "interleaved.h"
#include "one_f_one_b.h"
#include "one_f_one_b_replicas.h"
#include "recomputing.h"
#include "zb_h1.h"

namespace transformer {

template <class Real> class Report {
public:
  Report(const Setup &all, uint64_t steps, double tolerance)
      : setup(all), steps(steps), tolerance(tolerance) {}

  template <class Schedule> void run(const char *name, const Schedule &schedule) {
    Setup own = setup;
    own.stages = schedule.stages;
    own.replicas = schedule.replicas;
    own.firstSample = {0};
    for (double factor : schedule.lossFactor)
      own.firstSample.push_back(own.firstSample.back() +
                                static_cast<std::size_t>(std::lround(factor * batch)));
    const Outcome outcome = train<Real>(schedule, own, referenceOf(own));
    std::printf("%-26s %2u x %zu  %6.3f -> %5.3f  %10.1e  ", name, own.replicas, schedule.devices.size(),
                outcome.firstLoss, outcome.lastLoss, outcome.difference);
    if (setup.wrongReplay) {
      std::printf("a fault on purpose\n");
      return demand(outcome.difference > 1e-3, "a wrong dropout mask must show in the gradients");
    }
    const bool same = hashOfOneRun<Real>(schedule, own, steps) == outcome.hash;
    std::printf("%s\n", same ? "same bits" : "DIFFERENT BITS");
    demand(outcome.difference <= tolerance, "gradients equal those of unpipelined training");
    demand(same, "gradients are the same, bit by bit, from run to run");
    demand(outcome.copiesAgree, "all copies of a stage have the same weights, bit by bit");
    demand(outcome.lastLoss < 0.8 * outcome.firstLoss, "the loss falls");
  }
  void setWrongReplay() { setup.wrongReplay = true; }
  bool hasPassed() const { return passed; }

private:
  static constexpr double batch = 16; // sequences of a step

  /// With one replica and with two the same sequences are trained, but with other dropout masks.
  const Reference<Real> &referenceOf(const Setup &own) {
    std::unique_ptr<Reference<Real>> &reference = references[own.replicas];
    if (!reference)
      reference = std::make_unique<Reference<Real>>(own, steps);
    return *reference;
  }
  void demand(bool holds, const char *what) {
    if (!holds)
      std::printf("  failed: %s\n", what);
    passed &= holds;
  }
  Setup setup;
  const uint64_t steps;
  const double tolerance;
  std::map<unsigned, std::unique_ptr<Reference<Real>>> references;
  bool passed = true;
};

template <class Real> bool runAll(const Setup &setup, unsigned long long steps, double tolerance) {
  Report<Real> report(setup, steps, tolerance);
  report.run("one_f_one_b", one_f_one_b::schedule);
  report.run("one_f_one_b, replicas", one_f_one_b_replicas::schedule);
  report.run("zb_h1", zb_h1::schedule);
  report.run("interleaved", interleaved::schedule);
  report.run("folded", folded::schedule);
  report.run("bidirectional", bidirectional::schedule);
  report.run("bidirectional, replicas", bidirectional_replicas::schedule);
  report.run("recomputing", recomputing::schedule);
  report.setWrongReplay();
  report.run("recomputing, wrong mask", recomputing::schedule);
  return report.hasPassed();
}

} // namespace transformer
