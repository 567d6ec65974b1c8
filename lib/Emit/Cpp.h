// The executor of a schedule as C++: `<name>.h`, which declares the schedule and needs only the runtime's
// light Schedule.h, and `<name>.cpp`, which holds one row per instruction, slots assigned, with a comment;
// what comes again and again in large tables once (PackRows.h).
//
// The same program gives the same bytes: no paths, no time stamps, and the digest (CppDigest.h) is of what
// the executor does, so that a comment edit in the schedule file changes nothing. Everything lives in
// `<namespace>::<name>`, inside an inline namespace named by the digest: two parameterisations of one
// schedule link into one program.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"
#include "Passes/ExecutorTables.h"

#include <optional>
#include <string>
#include <vector>

namespace sluice {

struct EmittedFile {
  std::string name; ///< `one_f_one_b.h`, or `sluice/Executor.h`: below the output folder.
  std::string text;
};

struct CppOptions {
  std::string name = {};       ///< Of files and namespace; empty: the program's.
  std::string nameSpace = {};  ///< Around it, such as `training::schedules`; may be empty.
  std::string parameters = {}; ///< `P = 4, M = 8`, for the reader.
  std::string source = {};     ///< The schedule file; only the last part of its path is shown.
  bool withRuntime = false;
  /// Instructions up to which each has a line of its own. About half a second to compile.
  size_t explicitRows = 20'000;
};

/// What is emitted, and what a digest is of: slots assigned, with the channel models that the program
/// completes under. None for one that cannot run to its end (302, 2xx).
std::optional<ExecutorTables> executorTables(const Program &program, const CostModel &costs);

/// `program` has been verified; one that cannot run to its end (302, 2xx) gives no files.
std::vector<EmittedFile> emitCpp(const Program &program, const CostModel &costs, const CppOptions &options);
/// Of the tables of `program`.
std::vector<EmittedFile> emitCpp(const Program &program, const ExecutorTables &tables,
                                 const CppOptions &options);

/// `name` as a C++ identifier: itself, or with an underscore behind it where C++ has it as a keyword.
std::string cppIdentifier(llvm::StringRef name);

} // namespace sluice
