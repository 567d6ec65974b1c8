// sluice generate cpp: the executor of one schedule, written only where it differs from what is there.
#include "Common.h"

#include "Emit/Cpp.h"
#include "Passes/AssignSlots.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

namespace sluice::tool {

namespace cl = llvm::cl;

static cl::list<std::string> arguments(cl::Positional, cl::desc("cpp FILE"), cl::sub(generateCommand));
static cl::opt<std::string> output("o", cl::desc("Folder to write to"), cl::value_desc("DIR"),
                                   cl::sub(generateCommand));
static cl::opt<std::string> nameSpace("namespace", cl::desc("C++ namespace around the schedule's own"),
                                      cl::value_desc("NAME"), cl::sub(generateCommand));
static cl::opt<std::string> fileName("name",
                                     cl::desc("Name of the files and of the namespace (default: the "
                                              "schedule's)"),
                                     cl::value_desc("NAME"), cl::sub(generateCommand));
static cl::opt<bool> check("check", cl::desc("Write nothing; exit 1 and list the files that are stale"),
                           cl::sub(generateCommand));
static cl::opt<bool> withRuntime("with-runtime", cl::desc("Also write the runtime's headers"),
                                 cl::sub(generateCommand));
static cl::opt<uint64_t>
    explicitRows("rows",
                 cl::desc("Instructions up to which each has a line of its own; above, what "
                          "repeats is listed once (default 20000)"),
                 cl::value_desc("N"), cl::init(CppOptions().explicitRows), cl::sub(generateCommand));

static bool isCurrent(llvm::StringRef path, llvm::StringRef text) {
  auto file = llvm::MemoryBuffer::getFile(path);
  return file && (*file)->getBuffer() == text;
}

/// By way of a file beside it, so that a build that is interrupted, or that reads meanwhile, sees the old
/// file or the new one.
static ExitCode write(llvm::StringRef path, llvm::StringRef text) {
  auto fail = [&](const std::string &why) { return usageError("cannot write " + path.str() + ": " + why); };
  if (std::error_code error = llvm::sys::fs::create_directories(llvm::sys::path::parent_path(path)))
    return fail(error.message());
  llvm::Error error = llvm::writeToOutput(path, [&](llvm::raw_ostream &file) {
    file << text;
    return llvm::Error::success();
  });
  return error ? fail(llvm::toString(std::move(error))) : Clean;
}

static bool isCppName(llvm::StringRef name) {
  return !name.empty() && !llvm::isDigit(name[0]) &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; }) &&
         cppIdentifier(name) == name;
}

/// What the compiler would otherwise say of the files.
static ExitCode checkCppNames() {
  if (!fileName.empty() && !isCppName(fileName) && !isCppName(cppIdentifier(fileName)))
    return usageError("--name " + fileName + " is no C++ name: letters, digits and _, no digit in front");
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(nameSpace).split(parts, "::");
  for (llvm::StringRef part : parts)
    if (!nameSpace.empty() && !isCppName(part))
      return usageError("--namespace " + nameSpace +
                        " is no C++ namespace: write names with :: between them, such " +
                        "as training::schedules");
  return Clean;
}

ExitCode runGenerate() {
  if (arguments.size() != 2 || arguments[0] != "cpp")
    return usageError("sluice generate cpp FILE -o DIR");
  if (output.empty())
    return usageError("say where to write with -o DIR");
  if (ExitCode code = checkCppNames(); code != Clean)
    return code;
  Session session;
  if (ExitCode code = session.openSingle(arguments[1]); code != Clean)
    return code;
  std::vector<std::string> names = session.compilation.schedules(session.options, session.settings[0]);
  if (names.size() != 1)
    return usageError("the file has several schedules; choose one with --schedule: " +
                      llvm::join(names, ", "));

  std::vector<EmittedFile> files;
  session.compilation.run(
      session.settings[0], session.options, Compilation::Depth::Verify, session.diagnostics,
      [&](Instance &instance) {
        if (!instance.verdict.clean)
          return;
        llvm::StringRef what = unknownToExecutors(instance.program, instance.costs);
        std::optional<ExecutorTables> tables;
        if (what.empty())
          tables = executorTables(instance.program, instance.costs);
        if (tables && !tables->verified.unbounded) // the mildest of them
          what =
              "an executor of what completes under no channel model with groups that complete one by one and "
              "transfers that move by themselves";
        if (!what.empty()) {
          session.diagnostics.report(Rule::NotSupportedYet, instance.program.span, {{"what", what.str()}});
          return;
        }
        CppOptions options;
        options.name = fileName;
        options.nameSpace = nameSpace;
        options.parameters = instance.parameterText();
        options.source = arguments[1];
        options.withRuntime = withRuntime;
        options.explicitRows = explicitRows;
        if (tables) // a clean verdict: it runs to its end
          files = emitCpp(instance.program, *tables, options);
      });
  if (ExitCode code = session.finish(); code != Clean)
    return code;
  bool stale = false;
  for (const EmittedFile &file : files) {
    llvm::SmallString<128> path(output);
    llvm::sys::path::append(path, file.name);
    if (isCurrent(path, file.text))
      continue;
    stale = true;
    if (check)
      print((path + "\n").str());
    else if (ExitCode code = write(path, file.text); code != Clean)
      return code;
  }
  return check && stale ? Findings : Clean;
}

} // namespace sluice::tool
