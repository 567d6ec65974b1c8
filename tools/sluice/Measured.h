// What `compare` and `calibrate` share: traces of the command line.
#pragma once

#include "Common.h"

#include "Formats/TraceJson.h"

#include "llvm/Support/Error.h"

namespace sluice::tool {

/// Whether a file is a trace by its content; false also for one that cannot be read.
bool isTraceFile(Session &session, const std::string &path);
/// Reads the traces of one run into one. Says what is wrong and returns Usage otherwise. What is uncertain
/// about it becomes `notes`.
ExitCode readTraces(Session &session, llvm::ArrayRef<std::string> paths, Trace &trace,
                    std::vector<std::string> &notes);
/// Chooses the schedule that ran, unless --schedule does, and compiles it up to `depth`. `instance` is it.
ExitCode compileTraced(Session &session, const Trace &trace, Compilation::Depth depth,
                       std::optional<Instance> &instance);
/// Of a modeled trace the number of the process of a schedule, of a measured one `replica`; nothing, after a
/// message, if there is none.
std::optional<uint32_t> processOf(const Trace &trace, const std::string &schedule, unsigned replica);
/// The message of a failure, with Usage.
ExitCode usageError(llvm::Error error);

} // namespace sluice::tool
