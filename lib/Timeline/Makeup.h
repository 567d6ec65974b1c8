// What the critical path is made of: the makespan split into the work of each stage, transfers over each
// link, collectives and moves to and from the host. The parts add up to the makespan exactly.
#pragma once

#include "Timeline/CriticalPath.h"

#include <array>

namespace sluice {

/// Time of the path under transfers over one link. In CostModel::unit.
struct PathLink {
  uint32_t link = noLink; ///< Into ModelCosts::links; noLink: messages that no link block carries.
  int64_t latency = 0;
  int64_t moving = 0;   ///< Size ÷ bandwidth.
  int64_t queueing = 0; ///< Behind other messages: of a shared lane, or of the queues of its channel.

  int64_t sum() const { return latency + moving + queueing; }
};

/// Work of one stage on the path. Of an overlap of two stages whose time the model gives, each has half.
struct PathStage {
  Rational compute = 0;
  int64_t update = 0;
};

struct Makeup {
  /// Kinds of compute: those of OpKind up to Recompute, and overlaps of several ops.
  static constexpr unsigned kindCount = 6, overlap = 5;

  uint64_t ops = 0; ///< That take time; an overlap counts once.
  std::array<int64_t, kindCount> kinds{};
  std::vector<PathStage> stages;
  std::vector<PathLink> links; ///< By link, without those that the path does not use.
  int64_t collectives = 0, host = 0;

  /// Compute and update of a stage.
  Rational timeOf(uint32_t stage) const;
  int64_t compute() const;   ///< Of all stages.
  int64_t updates() const;   ///< Of all stages.
  int64_t transfers() const; ///< Over all links.
  int64_t sum() const { return compute() + updates() + transfers() + collectives + host; }
};
/// `forwards`, `overlaps`: how lists name a kind of compute.
llvm::StringRef pathKindName(unsigned kind);

/// Of a path of criticalPath. Linear in its steps; beside that in the ops where it leads over written
/// messages.
Makeup makeupOf(const Program &program, const ProgramIndex &index, const CostModel &costs,
                const Timeline &timeline, llvm::ArrayRef<CriticalStep> path);

} // namespace sluice
