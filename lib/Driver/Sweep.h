// All settings of one file, shared out over threads that each take the next one. Each has its own evaluator
// and findings; the checked file and the texts are shared and only read. What comes out does not depend on
// the number of threads.
#pragma once

#include "Driver/Compilation.h"

namespace sluice {

/// One rule at one place, over all settings.
struct SweptFinding {
  Finding finding;                ///< As the first setting that has it says it; `alsoIn` is that of all.
  std::vector<uint32_t> settings; ///< Which have it, by number, ascending; never empty.
};

struct Sweep {
  /// What became of a schedule at a setting. Refused: a `require` of the file rules the setting out. Hiding:
  /// it has an error that may keep others from being found; a failed expectation keeps none.
  enum State : uint8_t { Ran = 1, Faulty = 2, Refused = 4, Hiding = 8 };

  struct Schedule {
    std::string name;
    std::vector<uint8_t> states; ///< `State`s of each setting, or-ed.
    std::string communication;   ///< At the first setting it ran at; empty if there is none.
  };

  std::vector<SweptFinding> findings; ///< By place, then rule; without failed `require`s.
  std::vector<Schedule> schedules;    ///< In order of declaration; first the file itself, without a name.
  unsigned allowed = 0;               ///< Findings that `allow` silenced, over all settings.

  const Schedule &file() const { return schedules.front(); }
  llvm::ArrayRef<Schedule> named() const { return llvm::ArrayRef(schedules).drop_front(); }
};

/// The functions but `progress` are called by all threads, each setting by one of them.
struct SweepOptions {
  unsigned threads = 0; ///< 0: as many as the machine runs at once.
  std::function<void(Diagnostics &)> prepare = {};
  /// Called by the calling thread after each setting that it ran, with how many are done in all.
  std::function<void(size_t)> progress = {};
  Compilation::Depth depth = Compilation::Depth::Expectations;
  /// Options of one setting that differ from those of all.
  std::function<void(uint32_t setting, CompileOptions &)> adjust = {};
  std::function<void(uint32_t setting, const Instance &)> visit = {};
  /// After the last schedule of a setting, with all its findings.
  std::function<void(uint32_t setting, const Diagnostics &)> finished = {};
};

/// Runs each setting. `settings` is not empty and has less than 2^32 elements.
Sweep sweep(const Compilation &compilation, llvm::ArrayRef<Setting> settings, const CompileOptions &options,
            const SweepOptions &how);

/// Whether a finding is one of this schedule, or of the file.
bool concerns(const Finding &finding, llvm::StringRef schedule);
/// The findings of a sweep, each once: as the first setting that has it says it, with how many have it and
/// which. Without `allow`s that are needed at some setting.
std::vector<Finding> findingsOf(const Sweep &sweep, llvm::ArrayRef<Setting> settings);
/// `; 6 refused by require`; empty for none.
std::string refusedText(size_t refused);

} // namespace sluice
