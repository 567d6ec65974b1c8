// Files of one run: schedule files, what they import, tables. Library files (`std/NAME`) come from the
// binary; other paths are relative to the file that names them.
#pragma once

#include "Formats/Format.h"
#include "Sema/Analyze.h"
#include "Support/Source.h"

namespace sluice {

class FileLoader : public FileReader {
public:
  /// `input` is the format of files whose names do not say that they are schedule files or CSVs; without
  /// it their suffix decides.
  explicit FileLoader(SourceManager &sources, const Format *input = nullptr)
      : sources(sources), input(input) {}

  /// Reads a file of the command line; `-` is standard input, shown as `<stdin>`.
  Result open(const std::string &path);
  /// As open, for commands that take schedules: a PyTorch CSV gives the schedule file that it stands for.
  Result openSchedule(const std::string &path);
  /// A text at hand as the file of that name.
  Result addSchedule(const std::string &name, llvm::StringRef text);
  /// The format of a text that openSchedule or addSchedule gave; null for schedule files.
  const Format *formatOf(Span text) const;
  Result read(llvm::StringRef path, llvm::StringRef from) override;
  std::shared_ptr<const Profile> profile(Span text, llvm::StringRef path, Span named,
                                         Diagnostics &diagnostics) override;
  std::vector<std::string> known() const override;

  /// Every file read from disk so far, as it was named; for dependency files.
  const std::vector<std::string> &opened() const { return paths; }

private:
  Result add(const std::string &name, llvm::StringRef text);

  SourceManager &sources;
  const Format *input;
  std::map<std::string, Span> loaded;
  std::map<uint32_t, const Format *> formats; ///< By where a text begins.
  std::map<std::string, Span>
      tables; ///< The CSV behind each file that openSchedule has made up, by its name.
  std::vector<std::string> paths;
};

} // namespace sluice
