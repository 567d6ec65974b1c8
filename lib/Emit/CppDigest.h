// What an executor is, in 16 hexadecimal digits: SHA-256 over all that its tables say but for the numbers of
// slots. Sites, loops and names of files are no part of it, nor are costs: files that differ in comments and
// times give the same digest, files that differ in an op, its communication, a factor or what a reduction
// leaves another one.
#pragma once

#include "Passes/ExecutorTables.h"

#include <string>

namespace sluice {

std::string digestOf(const ExecutorTables &tables);

} // namespace sluice
