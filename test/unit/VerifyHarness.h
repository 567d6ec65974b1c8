// Verifies schedules written with the C++ builder and puts findings into one comparable text.
#pragma once

#include "IR/Builder.h"
#include "Verify/Verify.h"

#include <fmt/format.h>
#include <memory>

namespace sluice::test {

struct Checked {
  std::unique_ptr<SourceManager> sources = std::make_unique<SourceManager>();
  Diagnostics diagnostics;
  Verdict verdict;

  const std::vector<Finding> &findings() const { return diagnostics.findings(); }
  unsigned line(Span span) const { return span.isValid() ? sources->locate(span.begin).line : 0; }
  /// `206 at 41, device 0, backward(0, 1): message`, one line a finding, in source order.
  std::string text() const {
    std::string all;
    for (const Finding &finding : findings())
      all += fmt::format("{} at {}, device {}, {}: {}\n", info(finding.rule).number, line(finding.span),
                         finding.device ? std::to_string(*finding.device) : "-",
                         finding.op.empty() ? "-" : finding.op, finding.message);
    return all;
  }
  std::string fix() const { return findings().empty() ? "" : findings().front().fix.message; }
  /// Notes of the first finding, `41: words`.
  std::string notes() const {
    std::string all;
    for (const Note &note : findings().empty() ? std::vector<Note>{} : findings().front().notes)
      all += fmt::format("{}: {}\n", line(note.span), note.message);
    return all;
  }
};

inline Checked check(const ScheduleBuilder &builder, const CostModel *costs = nullptr) {
  Checked result;
  Program program = builder.build(result.sources.get());
  CostModel ticks = CostModel::ofTicks(program.stages);
  result.verdict = verify(program, ProgramIndex(program), costs ? *costs : ticks, result.diagnostics,
                          result.sources.get());
  result.diagnostics.finish();
  return result;
}

inline CostModel withReplicas(uint32_t stages, int64_t replicas) {
  CostModel costs = CostModel::ofTicks(stages);
  costs.replicas = replicas;
  return costs;
}

/// Stage s on device s.
inline ScheduleBuilder straight(uint32_t devices, uint32_t microbatches) {
  ScheduleBuilder builder("straight", {devices, microbatches, devices});
  builder.place([](Stage s, Microbatch) { return s; });
  return builder;
}

/// Twice as many stages as devices, folded: the first device also holds the last stage.
inline ScheduleBuilder folded(uint32_t devices, uint32_t microbatches) {
  ScheduleBuilder builder("folded", {2 * devices, microbatches, devices});
  builder.place([=](Stage s, Microbatch) { return s < devices ? s : 2 * devices - 1 - s; });
  return builder;
}

} // namespace sluice::test
