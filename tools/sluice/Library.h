// The schedule library as `list` and `init` show it: what each schedule says of itself, and what the
// timeline gives at its own default parameters. Nothing is written down twice: text comes from the library's
// sources, figures are computed.
#pragma once

#include "Common.h"

namespace sluice::tool {

struct LibraryParameter {
  std::string name, value; ///< The default as written: `P`, `8`.
  std::string range;       ///< `1..65`, or empty.
  std::string meaning;     ///< What the documentation says of it in its line "- `P`: …"; may be empty.
};
struct LibraryConstraint {
  std::string condition, message; ///< As written.
};

/// One schedule of the library. Owns the run it was compiled in, which everything else points into.
struct LibraryEntry {
  std::string name, file;    ///< `zbv`, `std/zbv`
  std::string documentation; ///< Of the schedule, else of nothing.
  std::vector<LibraryParameter> parameters;
  std::vector<LibraryConstraint> constraints;
  std::vector<std::string> forms; ///< Closed forms that the file states, as written.
  std::string stages;             ///< How many it places, as written in its parameters; empty if not so.
  llvm::StringRef text;           ///< The whole file.
  Instance instance;              ///< At the defaults; without figures only if the file has errors.

  /// The first sentence of the first paragraph, on one line.
  std::string summary() const;
  /// `zbv(P = 4, M = 8)`
  std::string signature() const;
  /// Lines of a file that uses the schedule as the instance does: import, schedule, and what else it needs.
  std::vector<std::string> use() const;
  uint32_t peakActivation() const;
  /// The same in whole microbatches of all that a device holds, so that schedules with several stages a
  /// device, or splits of the sequence, compare with those that have neither.
  Rational peakShare() const;
};

class Library {
public:
  /// Compiles every file of the library, or only the one that holds schedule or file `only`, with `setting`
  /// for its parameters. Schedules with errors are left out and their findings printed to stderr.
  explicit Library(llvm::StringRef only = "", const Setting &setting = {});

  llvm::ArrayRef<LibraryEntry> entries() const { return all; }
  const LibraryEntry *find(llvm::StringRef name) const;
  const SourceManager &sources() const { return texts; }

  /// Findings if some schedule had errors, or a value for a parameter it has not.
  ExitCode failed() const { return code; }

  /// Names of all schedules, without compiling them.
  static std::vector<std::string> names();
  /// What to say if `name` is no schedule or file of the library: the nearest, or all. Else nothing.
  static std::string unknown(llvm::StringRef name);

private:
  void add(llvm::StringRef file, llvm::StringRef only, const Setting &setting);
  void addSchedule(Compilation &compilation, const ast::Schedule &schedule, LibraryEntry entry,
                   const Setting &setting);
  void report(Diagnostics &diagnostics);

  SourceManager texts;
  FileLoader loader{texts};
  std::vector<std::unique_ptr<Compilation>> compilations;
  std::vector<LibraryEntry> all;
  ExitCode code = Clean;
};

} // namespace sluice::tool
