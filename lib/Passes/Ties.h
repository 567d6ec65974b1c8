// Where the copies of a tied weight are.
#pragma once

#include "IR/Program.h"

#include "llvm/ADT/STLExtras.h"

namespace sluice {

/// All copies of all its stages are on one device: the weight is there once, and its gradient belongs to the
/// first stage. Else it is a joint one, which reduce_tied adds up.
inline bool isLocal(const Program &program, const TiedWeight &weight) {
  const std::vector<uint32_t> home = program.devicesOf(weight.stages.front());
  return home.size() == 1 &&
         llvm::all_of(weight.stages, [&](uint32_t stage) { return program.devicesOf(stage) == home; });
}

} // namespace sluice
