// sluice export: a schedule in another system's format. What the format cannot say is said on stderr.
#include "Common.h"

#include "Formats/Format.h"
#include "Sema/Settings.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace sluice::tool {

namespace cl = llvm::cl;

static cl::list<std::string> arguments(cl::Positional, cl::desc("FORMAT FILE"), cl::sub(exportCommand));
static cl::opt<std::string> output("o", cl::desc("Write to a file instead of standard output"),
                                   cl::value_desc("FILE"), cl::sub(exportCommand));

std::string formatList(bool read) {
  std::vector<std::string> names;
  for (const Format &format : allFormats())
    if (read ? format.read != nullptr : format.write != nullptr)
      names.push_back(format.name.str());
  return std::string("formats that are ") + (read ? "read" : "written") + ": " + llvm::join(names, ", ");
}

std::string noSuchFormat(llvm::StringRef name, bool read) {
  std::vector<llvm::StringRef> names;
  for (const Format &format : allFormats())
    if (read ? format.read != nullptr : format.write != nullptr)
      names.push_back(format.name);
  llvm::StringRef near = nearest(name, names);
  std::string what = (findFormat(name) ? "the format " + name + " is not " + (read ? "read" : "written")
                                       : "there is no format \"" + name + "\"")
                         .str();
  return near.empty() ? what + "; " + formatList(read) : what + ": " + near.str() + "?";
}

void printLost(llvm::ArrayRef<std::string> lost) {
  for (const std::string &line : lost)
    llvm::errs() << "sluice: lost: " << line << '\n';
}

ExitCode runExport() {
  if (arguments.empty())
    return usageError("sluice export FORMAT FILE [-o FILE]; " + formatList(/*read=*/false));
  const Format *format = findFormat(arguments[0]);
  if (!format || !format->write)
    return usageError(noSuchFormat(arguments[0], /*read=*/false));
  if (arguments.size() != 2)
    return usageError("name one file to export");
  Session session;
  if (ExitCode code = session.openSingle(arguments[1]); code != Clean)
    return code;
  std::vector<std::string> names = session.compilation.schedules(session.options, session.settings[0]);
  if (names.size() != 1)
    return usageError("the file has several schedules; choose one with --schedule: " +
                      llvm::join(names, ", "));
  std::optional<FormattedSchedule> schedule;
  session.compilation.run(session.settings[0], session.options, Compilation::Depth::Elaborate,
                          session.diagnostics, [&](Instance &instance) {
                            std::string parameters = instance.parameterText();
                            schedule = {std::move(instance.program), std::move(instance.costs),
                                        instance.name + (parameters.empty() ? "" : " at " + parameters)};
                          });
  ExitCode code = session.finish();
  if (!schedule || code != Clean)
    return code;
  std::vector<std::string> lost;
  std::string error;
  auto text = format->write(*schedule, lost, error);
  if (!text) {
    llvm::errs() << "sluice: error: " << format->name << " cannot say this schedule: " << error << '\n';
    return Findings;
  }
  printLost(lost);
  if (!output.empty())
    return writeFile(output, *text);
  print(*text);
  return Clean;
}

} // namespace sluice::tool
