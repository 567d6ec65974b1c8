#include "SharedOptions.h"

#include "llvm/ADT/STLExtras.h"

namespace sluice::tool {

ExitCode openShared(Session &session, const std::string &path, std::set<std::string> &known) {
  session.options = compileOptions();
  if (ExitCode code = checkTransport(session.options); code != Clean)
    return code;
  FileLoader::Result file = session.loader.openSchedule(path);
  if (!file.error.empty())
    return usageError("cannot read " + path + ": " + file.error);
  if (!session.compilation.load(file.text, session.diagnostics)) {
    session.finish();
    return Usage;
  }
  if (!scheduleName.empty() && llvm::none_of(session.compilation.checked().schedules,
                                             [&](const auto &s) { return s.name == scheduleName; }))
    session.options.schedule.clear();
  else if (!scheduleName.empty())
    known.insert("--schedule");
  std::vector<std::string> own, parameters = session.compilation.parameterNames(session.options);
  for (const std::string &definition : definitions)
    if (std::string name = llvm::StringRef(definition).split('=').first.trim().str();
        llvm::is_contained(parameters, name)) {
      own.push_back(definition);
      known.insert(name);
    }
  std::string error;
  session.settings = parseDefinitions(own, error);
  if (!error.empty())
    return usageError("-D: " + error);
  if (session.settings.size() != 1)
    return usageError("this command takes one value for each parameter; `sluice check` takes several");
  return checkNames(session.compilation, session.settings, session.options) ? Clean : Usage;
}

ExitCode checkKnown(const std::set<std::string> &known, size_t files) {
  const std::string none = files == 1   ? "the file does not have"
                           : files == 2 ? "neither file has"
                                        : "no file has";
  for (const std::string &definition : definitions)
    if (std::string name = llvm::StringRef(definition).split('=').first.trim().str(); !known.count(name))
      return usageError("-D " + name + ": " + none + " a parameter of this name");
  if (!scheduleName.empty() && !known.count("--schedule"))
    return usageError("--schedule " + scheduleName + ": " + none + " a schedule of this name");
  return Clean;
}

} // namespace sluice::tool
