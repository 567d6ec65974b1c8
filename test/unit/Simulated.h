// A schedule with its timeline and figures, as the later steps of the compiler receive them.
#pragma once

#include "Timeline/Figures.h"

#include <gtest/gtest.h>

namespace sluice::test {

struct Simulated {
  Program program;
  CostModel costs;
  ProgramIndex index;
  Timeline timeline;
  Figures figures;

  Simulated(Program built, CostModel model)
      : program(std::move(built)), costs(std::move(model)), index(program) {
    Diagnostics diagnostics;
    timeline = *simulate(program, index, costs, diagnostics);
    figures = *computeFigures(program, index, costs, timeline, diagnostics);
    EXPECT_TRUE(diagnostics.findings().empty());
  }
};

inline Figures figuresOf(const Program &program, const CostModel &costs) {
  return Simulated(program, costs).figures;
}

} // namespace sluice::test
