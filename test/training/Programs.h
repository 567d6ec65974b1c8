// Schedules of the library, and hand-written ones, compiled in memory with what a training says.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"

#include <optional>
#include <string>
#include <vector>

namespace sluice::test {

struct LibrarySchedule {
  const char *file, *name;
  const char *third;              ///< Its third parameter, or null.
  const char *microbatches = "M"; ///< Null: as many as devices.
  bool isAsynchronous = false;
};
/// Every schedule of the library.
const std::vector<LibrarySchedule> &librarySchedules();

struct Compiled {
  std::string name; ///< With its parameters.
  Program program;
  CostModel costs;
};

/// What the training of a step is about.
struct Training {
  std::vector<int64_t> samples; ///< Of each whole microbatch.
  unsigned replicas = 1;
};

/// The schedule at these sizes; none where a `require` of it rules them out. Any other finding fails the
/// test.
std::optional<Compiled> compileLibrary(const LibrarySchedule &schedule, int64_t P, int64_t M, int64_t third,
                                       const Training &training);
/// A file with one schedule, its model and training.
std::optional<Compiled> compileText(const std::string &text, const std::string &name);

} // namespace sluice::test
