// Files of one run: schedule files, what they import, tables. Library files (`std/NAME`) come from the
// binary; other paths are relative to the file that names them.
#pragma once

#include "Sema/Analyze.h"
#include "Support/Source.h"

namespace sluice {

class FileLoader : public FileReader {
public:
  explicit FileLoader(SourceManager &sources) : sources(sources) {}

  /// Reads a file of the command line; `-` is standard input, shown as `<stdin>`.
  Result open(const std::string &path);
  /// As open, for commands that take schedules: a PyTorch CSV gives the schedule file that it stands for.
  Result openSchedule(const std::string &path);
  Result read(llvm::StringRef path, llvm::StringRef from) override;
  std::vector<std::string> known() const override;

  /// Every file read from disk so far, as it was named; for dependency files.
  const std::vector<std::string> &opened() const { return paths; }

private:
  Result add(const std::string &name, llvm::StringRef text);

  SourceManager &sources;
  std::map<std::string, Span> loaded;
  std::map<std::string, Span> tables; ///< The CSV behind each file that openSchedule has made up, by its name.
  std::vector<std::string> paths;
};

} // namespace sluice
