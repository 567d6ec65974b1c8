// Schedules of the language as executors get them: the program that was checked, what the file says of its
// training, and the figures that slots are compared with.
#pragma once

#include "Driver/Compilation.h"

#include <string>
#include <vector>

namespace sluice::test {

struct CompiledSchedule {
  std::string name; ///< With its parameters.
  Program program;
  CostModel costs;
  std::vector<DeviceMemory> memory; ///< Per device.
};

/// The schedules of a text that are clean at a setting, but for warnings; `findings` gets what stands against
/// the others.
std::vector<CompiledSchedule> compileSchedules(const std::string &text, const Setting &setting,
                                               std::string *findings = nullptr);

/// Every schedule of the library at P devices of 1 to `mostDevices` and a few numbers of microbatches, as far
/// as its `require`s allow.
std::vector<CompiledSchedule> librarySchedules(uint32_t mostDevices);

/// What the mean loss of a unit (its sum, if the file says so) has to count in the gradient that an update
/// reads, by the table of docs/language.md, "The gradient contract". `count`: the microbatches that it is of,
/// in an asynchronous program, which has samples of one size.
Rational wantedFactor(const CompiledSchedule &schedule, uint32_t unit, size_t count);

} // namespace sluice::test
