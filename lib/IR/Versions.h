// Versions of weights. A copy of a stage counts its updates: version v exists after v of them, 0 is the
// initial one. A forward reads the newest or the one it names; what a backward reads follows from
// Program::versions (PipeDream, Narayanan et al. 2019, stashes; PipeDream-2BW, 2021, names two). A recompute
// reads what the backward of its microbatch would, weight halves read no weights.
#pragma once

#include "IR/Program.h"

namespace sluice {

inline constexpr uint32_t noVersion = ~0u;

struct Versions {
  /// Per op: the version it reads; of an update the one it makes; noVersion for all others. A named
  /// version may be one that is not made yet.
  std::vector<uint32_t> of;
  /// Per op: how many versions of its stage its device keeps behind it: the newest, and those that later
  /// ops read.
  std::vector<uint32_t> kept;
  /// Per op that a backward or an input half pops from a queue (VersionRule::Queued): the microbatch of the
  /// forward that pushed; empty for the other rules.
  std::vector<uint32_t> poppedFrom;
};

/// One walk a device and back, linear in ops; for programs in which no update stands between ops that read
/// weights it says nothing that is not plain.
Versions versionsOf(const Program &program);

/// Per stage, the most over its copies.
struct VersionFigures {
  std::vector<uint32_t> staleness; ///< Updates between the version a forward read and its contribution's.
  std::vector<uint32_t> kept;      ///< Versions kept at once.
};
VersionFigures versionFigures(const Program &program, const Versions &versions);

} // namespace sluice
