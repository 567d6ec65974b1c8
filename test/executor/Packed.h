// Packs rows and writes them out again, for tests.
#pragma once

#include "Passes/PackRows.h"

#include <sluice/Expand.h>

#include <cstring>
#include <gtest/gtest.h>
#include <string>

namespace sluice::test {

inline runtime::Device deviceOf(const PackedRows &packed) {
  runtime::Device device{};
  device.instructions = packed.rows;
  device.repeats = packed.repeats;
  device.moves = packed.moves;
  return device;
}

inline bool areSame(llvm::ArrayRef<runtime::Instruction> a, llvm::ArrayRef<runtime::Instruction> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0);
}

/// How many rows are kept; fails unless they give `rows` again.
inline size_t keptRows(llvm::ArrayRef<runtime::Instruction> rows, const std::string &what) {
  const PackedRows packed = packRows(rows);
  const runtime::Device device = deviceOf(packed);
  EXPECT_EQ(rowCount(device), rows.size()) << what;
  EXPECT_TRUE(areSame(expand(device), rows)) << what;
  return packed.rows.size();
}

} // namespace sluice::test
