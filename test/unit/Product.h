// All that the product says of one schedule, for tests that hold it against the slow model.
#pragma once

#include "RandomSchedules.h"
#include "SlowModel.h"
#include "Timeline/Figures.h"
#include "Verify/Verify.h"

namespace sluice::slow {

/// What the product says of a schedule; `timeline` and `figures` only where it runs to its end.
struct Product {
  Program program;
  ProgramIndex index;
  Diagnostics diagnostics;
  sluice::Verdict verdict;
  std::optional<Timeline> timeline;
  std::optional<sluice::Figures> figures;

  explicit Product(const RandomSchedule &schedule)
      : program(schedule.build()), index(program),
        verdict(verify(program, index, schedule.costs, diagnostics)) {
    if (verdict.complete)
      measure(schedule);
  }
  void measure(const RandomSchedule &schedule) {
    timeline = simulate(program, index, schedule.costs, diagnostics);
    if (timeline)
      figures = computeFigures(program, index, schedule.costs, *timeline, diagnostics);
  }
  /// Rule numbers of all findings, those of a program that never ends as `stuck`.
  std::set<unsigned> rules() const {
    std::set<unsigned> numbers;
    for (const Finding &finding : diagnostics.findings()) {
      unsigned number = info(finding.rule).number;
      numbers.insert(number == 304 || number == 305 ? stuck : number);
    }
    return numbers;
  }
  /// For failures.
  std::string findings() const {
    std::string text;
    for (const Finding &finding : diagnostics.findings())
      text += std::to_string(info(finding.rule).number) + " " + finding.message + "\n";
    return text;
  }
};

} // namespace sluice::slow
