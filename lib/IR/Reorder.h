// A program with its ops in another order, to be timed or checked: lists by op follow, places in the source
// do not.
#pragma once

#include "IR/Program.h"

#include <algorithm>

namespace sluice {

/// `order` holds every op once, each device's ops at its own places; `placeOf` gets where each op then
/// stands.
inline Program reordered(const Program &program, llvm::ArrayRef<OpId> order, std::vector<OpId> &placeOf) {
  Program result = program;
  placeOf.resize(program.size());
  for (OpId place = 0; place < order.size(); ++place) {
    result.ops[place] = program.ops[order[place]];
    placeOf[order[place]] = place;
  }
  auto follow = [&](auto &entries) {
    for (auto &entry : entries)
      entry.op = placeOf[entry.op];
    std::sort(entries.begin(), entries.end(), [](const auto &a, const auto &b) { return a.op < b.op; });
  };
  follow(result.namedVersions);
  follow(result.factors);
  follow(result.peers);
  follow(result.payloads);
  return result;
}

} // namespace sluice
