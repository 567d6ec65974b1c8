// All files of one `sluice check`: their findings together, and what was found clean.
#pragma once

#include "Common.h"

#include "Driver/Sweep.h"
#include "Emit/FindingsJson.h"

namespace sluice::tool {

class CheckRun {
public:
  std::vector<std::pair<Rule, Severity>> severities; ///< `--deny`, `--warn`
  size_t schedules = 0;                              ///< Seen so far.
  unsigned threads = 0;                              ///< `--threads`; 0: as many as the machine runs.

  bool equivalence = false; ///< `--equivalence`: say whether the step equals unpipelined training.

  /// Whether closed forms of imported files are checked too.
  void checkClosedForms(bool wanted) { options.closedForms = wanted; }
  /// Reads `-D` and the other options that all files share.
  ExitCode start();
  /// Checks one file. Inside a folder a file that declares no schedule is looked at as far as it goes;
  /// named itself it is a usage error.
  ExitCode file(const std::string &path, bool inFolder);
  /// After the files of a folder: Usage if none of them has a parameter that `-D` names.
  ExitCode finishFolder(const std::string &path) const;
  bool hasFindings() const { return !findings.empty(); }
  enum class Form : uint8_t { Text, Json, Sarif, Github, Junit };
  /// Prints everything in this form. Findings if one is at or above the threshold, or if no setting could be
  /// checked.
  ExitCode finish(Severity threshold, Form form);

private:
  void printText() const;
  std::string junit(Severity threshold) const;
  void single(const std::string &path, Compilation &compilation, Diagnostics &diagnostics);
  void several(const std::string &path, Compilation &compilation, Diagnostics &diagnostics);
  void summarize(const std::string &path, const Sweep &sweep);
  void queues(const std::string &path, Compilation &compilation, Diagnostics &diagnostics);
  void add(Diagnostics &diagnostics);
  void prepare(Diagnostics &diagnostics) const;
  void keepOwnParameters(const Compilation &compilation);

  struct Verdict {
    std::string path, text;
  };
  SourceManager sources;
  FileLoader loader{sources, inputFormat()};
  std::vector<Finding> findings;
  std::vector<CheckedInstance> checked;
  std::vector<FailingSchedule> failing;
  std::vector<Verdict> verdicts; ///< In words: `clean: …`, `failing: …`.
  std::set<std::string> paths;
  std::vector<Setting> allSettings;     ///< Of the command line.
  std::vector<Setting> settings;        ///< Of the file at hand.
  std::set<std::string> parametersSeen; ///< Of `-D`, in files of folders.
  CompileOptions options = compileOptions();
  unsigned allowed = 0;
  bool nothingChecked = false; ///< Every setting of some file was refused by its `require`s.
};

} // namespace sluice::tool
