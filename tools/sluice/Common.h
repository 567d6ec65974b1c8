// What the subcommands share: options, reading a file, printing findings, exit codes.
#pragma once

#include "Driver/Compilation.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/CommandLine.h"

namespace sluice::tool {

enum ExitCode : int { Clean = 0, Findings = 1, Usage = 2, Fault = 3 };

/// Options that many commands take.
extern llvm::cl::SubCommand checkCommand, simulateCommand, generateCommand, dumpCommand, queueCommand,
    explainCommand, importCommand, exportCommand, diffCommand, listCommand, initCommand, sweepCommand,
    compareCommand, calibrateCommand;
extern llvm::cl::list<std::string> definitions;
extern llvm::cl::opt<std::string> scheduleName, transportName;
extern llvm::cl::opt<uint64_t> maxOps;

ExitCode runCheck();
ExitCode runSimulate();
ExitCode runGenerate();
ExitCode runDump();
ExitCode runQueue();
ExitCode runExplain();
ExitCode runImport();
ExitCode runExport();
ExitCode runDiff();
ExitCode runList();
ExitCode runInit();
ExitCode runSweep();
ExitCode runCompare();
ExitCode runCalibrate();

/// The format that `--input` names; null without it. `checkInput` has made sure that there is one.
const Format *inputFormat();
/// Usage if `--input` names no format that is read.
ExitCode checkInput();

/// One file of the command line, its settings, and the findings so far.
struct Session {
  SourceManager sources;
  FileLoader loader{sources, inputFormat()};
  Compilation compilation{sources, loader};
  Diagnostics diagnostics;
  std::vector<Setting> settings;
  CompileOptions options;

  /// Reads and analyzes `path`. Clean, or why the command ends: everything has been said then.
  ExitCode open(const std::string &path);
  /// As open, for commands that take one setting only.
  ExitCode openSingle(const std::string &path);
  /// Sorts and prints the findings to stderr. Findings if one is an error.
  ExitCode finish();
};

CompileOptions compileOptions();
/// `1%`, `0.5%` or `0.01` as a part; nothing for anything else.
std::optional<Rational> partOf(llvm::StringRef text);
/// Usage if `--transport` names none there is.
ExitCode checkTransport(const CompileOptions &options);
/// True if every name of `-D` is a parameter of the file; else says so on stderr.
bool checkParameterNames(const Compilation &compilation, llvm::ArrayRef<Setting> settings,
                         const CompileOptions &options);
/// True if names of `--schedule` and `-D` occur in the file; else says so on stderr.
bool checkNames(const Compilation &compilation, llvm::ArrayRef<Setting> settings,
                const CompileOptions &options);
/// `formats that are read: json, megatron`, or written.
std::string formatList(bool read);
/// Why `name` is no format that is read, or written, with the nearest that is.
std::string noSuchFormat(llvm::StringRef name, bool read);
/// What a format could not carry, a line each, to stderr.
void printLost(llvm::ArrayRef<std::string> lost);
/// Prints `sluice: error: …` to stderr and returns Usage.
ExitCode usageError(const std::string &message);
/// Writes to stdout.
void print(llvm::StringRef text);
/// Writes a file whole; Usage, after a message, if that fails.
ExitCode writeFile(llvm::StringRef path, llvm::StringRef text);
/// As `write` gives it.
ExitCode writeFile(llvm::StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> write);
/// Usage, after a message, if something printed has not arrived; `code` otherwise.
ExitCode finishOutput(ExitCode code);
bool stdoutHasColors();
bool stderrHasColors();
/// Columns of the terminal, or of $COLUMNS; 100 otherwise.
unsigned terminalWidth();

} // namespace sluice::tool
