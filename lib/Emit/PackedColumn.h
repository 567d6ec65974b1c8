// Columns of whole numbers as short text, for pages that hold many of them. Schedules repeat themselves, so a
// value is stored as what it exceeds the one a fixed distance before it by, and equal differences as a run.
// Before base64 (RFC 4648) a column is a byte `distance`, a byte `runs`, and numbers in groups of seven bits,
// lowest first (LEB128): how many values there are, then a difference for each, a negative one as -2x - 1 and
// others as 2x; with `runs` behind each difference how many more of the same follow. Distance 0 means the
// values themselves. lib/Emit/page/columns.js reads it.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <string>

namespace sluice {

std::string packedColumn(llvm::ArrayRef<int64_t> values);

} // namespace sluice
