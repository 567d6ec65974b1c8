// An interpreter of executor tables that shares nothing with the compiler or the runtime: it is written from
// sluice/Schedule.h alone. Every slot holds a token that says what is in it; every row checks what it finds.
// Messages block by the rules of a channel model, joint ops until all their devices have come; one replica
// runs.
//
// Gradients carry an exact factor, so that what reaches an update can be compared with what the training asks
// for.
#pragma once

#include "Passes/ExecutorTables.h"
#include "Support/Rational.h"

#include <functional>
#include <stdexcept>

namespace sluice::test {

struct TableFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct MachineOptions {
  runtime::ChannelModel model = runtime::ChannelModel::rendezvous;
  uint64_t steps = 2;
  /// Messages whose slot is used again are waited for there; else that is a fault.
  bool waitsLazily = true;
  uint64_t seed = 0;        ///< Of the order in which devices get their turns; 0: ascending.
  bool readsNewest = false; ///< A backward reads the newest weights, else those of its forward.
  bool keepsUsed = false;   ///< Updates do not empty accumulators (`zero`, `overwrite`).
  /// What a unit of a microbatch should count in the gradient that an update reads, which is of `count` of
  /// them on its device.
  std::function<Rational(uint32_t unit, size_t count)> wanted;
};

/// Throws TableFault, also when the devices stand and cannot go on.
void runTables(const ExecutorTables &tables, const MachineOptions &options);

} // namespace sluice::test
