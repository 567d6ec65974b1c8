// The rows of an executor's tables as C++ initializers, one instruction a line with its comment.
#pragma once

#include "Passes/ExecutorTables.h"

#include <string>

namespace sluice {

/// `{Op::Forward, 0, 1, 3, 0, 1, 2, none}, // 12: forward(1, 3), boundary 0 -> 1, saved 2`, in columns.
/// Comments of operands stand further in: they belong to the row behind them.
std::string cppRow(const runtime::Instruction &row, size_t index, const ExecutorTables &tables);

} // namespace sluice
