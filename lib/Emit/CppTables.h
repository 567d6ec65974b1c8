// The tables of an executor as C++ arrays and the `schedule` that refers to them: the inside of `<name>.cpp`.
// What is as Schedule.h has it by default is left out.
#pragma once

#include "Passes/ExecutorTables.h"

#include "llvm/ADT/StringRef.h"

#include <string>

namespace sluice {

struct CppTables {
  std::string text;
  size_t rows = 0;   ///< Instructions as carried out,
  size_t listed = 0; ///< and as listed: fewer where some repeat.
};

/// The arrays, for the unnamed namespace. With more than `explicitRows` instructions in all, each device's
/// rows are packed.
CppTables cppTables(const ExecutorTables &tables, size_t explicitRows);

/// `constinit const Schedule schedule = {...};` over those arrays; `provenance` is its initializer.
std::string cppSchedule(const ExecutorTables &tables, llvm::StringRef provenance);

/// As a C++ string literal.
std::string cppQuoted(llvm::StringRef text);

} // namespace sluice
