#include "Measured.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice::tool {

bool isTraceFile(Session &session, const std::string &path) {
  FileLoader::Result file = session.loader.open(path);
  return file.error.empty() && session.sources.text(file.text).contains("\"traceEvents\"");
}

ExitCode usageError(llvm::Error error) { return usageError(llvm::toString(std::move(error))); }

ExitCode readTraces(Session &session, llvm::ArrayRef<std::string> paths, Trace &trace,
                    std::vector<std::string> &notes) {
  bool isFirst = true;
  for (const std::string &path : paths) {
    FileLoader::Result file = session.loader.open(path);
    if (!file.error.empty())
      return usageError("cannot read " + path + ": " + file.error);
    if (llvm::is_contained(paths.take_front(&path - paths.begin()), path))
      return usageError(path + " is named twice");
    const llvm::StringRef text = session.sources.text(file.text).rtrim();
    if (text.empty())
      return usageError(path +
                        " is empty: an executor writes its trace when its observer's write() is called");
    if (!text.contains("\"traceEvents\""))
      return usageError(path +
                        " is no trace: it has no \"traceEvents\". sluice/TraceObserver.h writes one, and "
                        "so does `sluice simulate -o run.trace.json`");
    std::optional<Trace> read = readTrace(session.sources, file.text, session.diagnostics);
    if (!read) {
      session.finish();
      if (!text.ends_with("}"))
        return usageError(path + " does not end in `}`: it was cut short, or is still being written");
      return Usage;
    }
    if (isFirst) {
      trace = std::move(*read);
    } else if (read->isModeled || trace.isModeled) {
      return usageError("several traces are those of the processes of one run; " + path + " and " + paths[0] +
                        " are not both measured");
    } else if (read->schedules != trace.schedules) {
      return usageError(path + " and " + paths[0] + " are of different schedules");
    } else if (!addTrace(trace, std::move(*read))) {
      return usageError("the times of " + path + " and " + paths[0] + " do not fit 64 bits together");
    }
    isFirst = false;
  }
  if (paths.size() > 1 && !trace.hasOrigin)
    notes.push_back("not every trace tells its origin (`origin_ns`), so their clocks may be apart");
  auto note = [&](uint64_t count, const char *text) {
    if (count > 0)
      notes.push_back(fmt::format("{} event{} of the trace {} {}", count, count == 1 ? "" : "s",
                                  count == 1 ? "was" : "were", text));
  };
  note(trace.ignored, "passed over: they are no ops, messages or waits");
  note(trace.unfinished, "left out: they do not end");
  note(trace.dropped, "not recorded, for lack of room");
  return Clean;
}

ExitCode compileTraced(Session &session, const Trace &trace, Compilation::Depth depth,
                       std::optional<Instance> &instance) {
  const std::vector<std::string> names = session.compilation.schedules(session.options, session.settings[0]);
  if (scheduleName.empty() && names.size() > 1) {
    std::vector<std::string> both;
    for (const std::string &name : names)
      if (llvm::is_contained(trace.schedules, name))
        both.push_back(name);
    if (both.size() != 1)
      return usageError(
          fmt::format("the trace is of {}, the file has {}; choose one with --schedule",
                      trace.schedules.empty() ? "no named schedule" : llvm::join(trace.schedules, ", "),
                      llvm::join(names, ", ")));
    session.options.schedule = both.front();
  }
  session.compilation.run(session.settings[0], session.options, depth, session.diagnostics,
                          [&](Instance &found) { instance.emplace(std::move(found)); });
  if (ExitCode code = session.finish(); code != Clean)
    return code;
  if (!instance || !instance->isCompiled)
    return usageError("the file gives no schedule to lay beside the trace");
  return Clean;
}

std::optional<uint32_t> processOf(const Trace &trace, const std::string &schedule, unsigned replica) {
  if (!trace.isModeled)
    return replica;
  if (trace.schedules.size() == 1)
    return 0;
  const auto found = llvm::find(trace.schedules, schedule);
  if (found != trace.schedules.end())
    return static_cast<uint32_t>(found - trace.schedules.begin());
  usageError(
      fmt::format("the trace has no schedule {}: it has {}", schedule, llvm::join(trace.schedules, ", ")));
  return std::nullopt;
}

} // namespace sluice::tool
