// sluice init: a file to start from.
#include "Starter.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace sluice::tool {

namespace cl = llvm::cl;

static cl::opt<std::string> schedule("schedule",
                                     cl::desc("Schedule of the library to start from (default: "
                                              "one_f_one_b)"),
                                     cl::value_desc("NAME"), cl::sub(initCommand));
static cl::opt<std::string> megatron("megatron", cl::desc("Options of a Megatron-LM job to start from"),
                                     cl::value_desc("'OPTIONS'"), cl::sub(initCommand));
static cl::opt<std::string> output("o", cl::desc("Write to this file, which may not exist yet"),
                                   cl::value_desc("FILE"), cl::sub(initCommand));

static ExitCode write(const std::string &text, const std::string &file) {
  const std::optional<std::string> whole = withExpectations(text, file);
  if (!whole) {
    llvm::errs() << "sluice: this is a fault of the tool itself: the file it made has findings\n";
    return Fault;
  }
  if (output.empty()) {
    print(*whole);
    return Clean;
  }
  if (llvm::sys::fs::exists(output))
    return usageError(output + " exists already, and init overwrites nothing");
  return writeFile(output, *whole);
}

static ExitCode fromMegatron(const std::string &file) {
  std::vector<std::string> errors;
  const std::optional<MegatronJob> job = readMegatronOptions(megatron, errors);
  for (const std::string &error : errors)
    usageError("--megatron: " + error);
  if (!job)
    return Usage;
  if (!job->ignored.empty())
    llvm::errs() << "sluice: note: ignored, as they say nothing about the pipeline: "
                 << llvm::join(job->ignored, ", ") << '\n';
  for (const std::string &remark : job->remarks)
    llvm::errs() << "sluice: note: " << remark << '\n';
  return write(megatronText(*job, file), file);
}

ExitCode runInit() {
  const std::string file = output.empty() ? "pipeline.sluice" : output.getValue();
  if (megatron.getNumOccurrences() > 0) {
    if (!schedule.empty())
      return usageError(
          "--schedule and --megatron exclude each other: Megatron's options choose the schedule");
    return fromMegatron(file);
  }
  const std::string name = schedule.empty() ? "one_f_one_b" : schedule.getValue();
  if (std::string unknown = Library::unknown(name); !unknown.empty())
    return usageError("--schedule: " + unknown);
  const Library library(name);
  const LibraryEntry *entry = library.find(name);
  return entry ? write(starterText(*entry, file), file) : library.failed();
}

} // namespace sluice::tool
