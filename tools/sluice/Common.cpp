#include "Common.h"

#include "Emit/FindingsText.h"
#include "Support/Words.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>

namespace sluice::tool {

namespace cl = llvm::cl;

cl::list<std::string>
    definitions("D", cl::Prefix,
                cl::desc("Value of a parameter: -D M=32. Several are tried in turn: M=1,7,8 or "
                         "P=2..9 (9 not included)"),
                cl::value_desc("NAME=VALUE"), cl::sub(checkCommand), cl::sub(simulateCommand),
                cl::sub(generateCommand), cl::sub(dumpCommand), cl::sub(queueCommand), cl::sub(exportCommand),
                cl::sub(diffCommand), cl::sub(listCommand), cl::sub(sweepCommand), cl::sub(compareCommand),
                cl::sub(calibrateCommand));
cl::opt<std::string> scheduleName("schedule", cl::desc("Only the schedule of this name"),
                                  cl::value_desc("NAME"), cl::sub(checkCommand), cl::sub(simulateCommand),
                                  cl::sub(generateCommand), cl::sub(dumpCommand), cl::sub(exportCommand),
                                  cl::sub(diffCommand), cl::sub(sweepCommand), cl::sub(compareCommand),
                                  cl::sub(calibrateCommand));
cl::opt<std::string>
    transportName("transport",
                  cl::desc("What blocks, instead of what the file says: nccl, mpi, gloo, local, rendezvous, "
                           "unbounded, eager(2)"),
                  cl::value_desc("NAME"), cl::sub(checkCommand), cl::sub(simulateCommand),
                  cl::sub(generateCommand), cl::sub(dumpCommand), cl::sub(diffCommand), cl::sub(sweepCommand),
                  cl::sub(compareCommand), cl::sub(calibrateCommand));
cl::opt<uint64_t> maxOps("max-ops", cl::desc("Expand at most this many ops (default 200 million)"),
                         cl::init(200'000'000), cl::value_desc("N"), cl::sub(checkCommand),
                         cl::sub(simulateCommand), cl::sub(generateCommand), cl::sub(dumpCommand),
                         cl::sub(importCommand), cl::sub(exportCommand), cl::sub(diffCommand),
                         cl::sub(sweepCommand), cl::sub(compareCommand), cl::sub(calibrateCommand));

static cl::opt<std::string>
    inputName("input",
              cl::desc("Format of the file where its name does not say it: megatron, deepspeed or json"),
              cl::value_desc("FORMAT"), cl::sub(checkCommand), cl::sub(simulateCommand),
              cl::sub(generateCommand), cl::sub(dumpCommand), cl::sub(exportCommand), cl::sub(diffCommand),
              cl::sub(sweepCommand), cl::sub(compareCommand), cl::sub(calibrateCommand));

const Format *inputFormat() { return findFormat(inputName); }
ExitCode checkInput() {
  const Format *format = inputFormat();
  return inputName.empty() || (format && format->read)
             ? Clean
             : usageError("--input: " + noSuchFormat(inputName, /*read=*/true));
}

static bool hasColors(int descriptor) {
  const char *noColor = std::getenv("NO_COLOR");
  if (noColor && *noColor)
    return false;
  const char *terminal = std::getenv("TERM");
  return isatty(descriptor) && terminal && llvm::StringRef(terminal) != "dumb";
}
bool stdoutHasColors() { return hasColors(STDOUT_FILENO); }
bool stderrHasColors() { return hasColors(STDERR_FILENO); }

unsigned terminalWidth() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  unsigned columns = 0;
  if (const char *given = std::getenv("COLUMNS"); given && !llvm::StringRef(given).getAsInteger(10, columns))
    return std::max(columns, 40u);
  return 100;
}

ExitCode usageError(const std::string &message) {
  llvm::errs() << "sluice: error: " << message << '\n';
  return Usage;
}

void print(llvm::StringRef text) { llvm::outs() << text; }

/// An error that is left in a stream would end the program when the stream does.
static ExitCode takeError(llvm::raw_fd_ostream &stream, llvm::StringRef name) {
  std::error_code error = stream.error();
  stream.clear_error();
  return error ? usageError("cannot write " + name.str() + ": " + error.message()) : Clean;
}

ExitCode writeFile(llvm::StringRef path, llvm::StringRef text) {
  return writeFile(path, [&](llvm::raw_ostream &file) { file << text; });
}

ExitCode writeFile(llvm::StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> write) {
  std::error_code error;
  llvm::raw_fd_ostream file(path, error);
  if (error)
    return usageError("cannot write " + path.str() + ": " + error.message());
  write(file);
  file.close();
  return takeError(file, path);
}

ExitCode finishOutput(ExitCode code) {
  llvm::outs().flush();
  ExitCode written = takeError(llvm::outs(), "the output");
  return written == Clean ? code : written;
}

std::optional<Rational> partOf(llvm::StringRef text) {
  int64_t denominator = text.consume_back("%") ? 100 : 1;
  auto [whole, fraction] = text.trim().split('.');
  std::string digits = (whole + fraction).str();
  if (digits.size() > 12 || digits.empty() || !llvm::all_of(digits, llvm::isDigit))
    return std::nullopt;
  for (size_t i = 0; i < fraction.size(); ++i)
    denominator *= 10;
  return Rational::make(std::stoll(digits), denominator);
}

CompileOptions compileOptions() {
  CompileOptions options;
  options.schedule = scheduleName;
  options.transport = transportName;
  options.elaborate.maxOps = std::min<uint64_t>(maxOps, sluice::maxOps);
  return options;
}

/// `no parameter "Q" in FILE: P, M` with the nearest name, if one is near.
static std::string noSuch(llvm::StringRef kind, llvm::StringRef name, llvm::ArrayRef<std::string> known) {
  std::vector<llvm::StringRef> candidates(known.begin(), known.end());
  llvm::StringRef near = nearest(name, candidates);
  std::string text = ("there is no " + kind + " \"" + name + "\"").str();
  if (!near.empty())
    return text + ": " + near.str() + "?";
  return known.empty() ? text + ": the file has none" : text + ": the file has " + llvm::join(known, ", ");
}

bool checkParameterNames(const Compilation &compilation, llvm::ArrayRef<Setting> settings,
                         const CompileOptions &options) {
  std::vector<std::string> parameters = compilation.parameterNames(options);
  for (const Definition &definition : settings.empty() ? Setting{} : settings.front())
    if (!llvm::is_contained(parameters, definition.name)) {
      usageError("-D " + definition.name + ": " + noSuch("parameter", definition.name, parameters));
      return false;
    }
  return true;
}

bool checkNames(const Compilation &compilation, llvm::ArrayRef<Setting> settings,
                const CompileOptions &options) {
  if (!checkParameterNames(compilation, settings, options))
    return false;
  if (!compilation.schedules(options, settings.empty() ? Setting{} : settings.front()).empty())
    return true;
  std::vector<std::string> names;
  for (const CheckedSchedule &schedule : compilation.checked().schedules)
    names.push_back(schedule.name);
  if (!options.schedule.empty())
    usageError("--schedule " + options.schedule + ": " + noSuch("schedule", options.schedule, names));
  else if (names.empty())
    usageError(compilation.checked().name + " declares no schedule");
  else
    usageError(compilation.checked().name +
               " declares no schedule with values for all its parameters; name one with --schedule: " +
               llvm::join(names, ", "));
  return false;
}

ExitCode checkTransport(const CompileOptions &options) {
  if (options.transport.empty() || channelRulesNamed(options.transport))
    return Clean;
  std::vector<llvm::StringRef> names;
  for (const Transport &transport : transports())
    names.push_back(transport.name);
  return usageError(
      "--transport " + options.transport + ": one of " + llvm::join(names, ", ") +
      ", rendezvous, unbounded, eager(2); `sluice explain transport` says what each stands for");
}

ExitCode Session::open(const std::string &path) {
  options = compileOptions();
  if (ExitCode code = checkTransport(options); code != Clean)
    return code;
  std::string error;
  settings = parseDefinitions(definitions, error);
  if (!error.empty())
    return usageError("-D: " + error);
  FileLoader::Result file = loader.openSchedule(path);
  if (!file.error.empty())
    return usageError("cannot read " + path + ": " + file.error);
  if (!compilation.load(file.text, diagnostics))
    return finish();
  printLost(compilation.lost());
  return checkNames(compilation, settings, options) ? Clean : Usage;
}

ExitCode Session::openSingle(const std::string &path) {
  if (ExitCode code = open(path); code != Clean)
    return code;
  if (settings.size() != 1)
    return usageError("this command takes one value for each parameter; `sluice check` takes several");
  return Clean;
}

ExitCode Session::finish() {
  diagnostics.finish();
  FindingsTextOptions text;
  text.color = stderrHasColors();
  llvm::errs() << findingsText(diagnostics.findings(), sources, text);
  return diagnostics.hasErrors() ? Findings : Clean;
}

} // namespace sluice::tool
