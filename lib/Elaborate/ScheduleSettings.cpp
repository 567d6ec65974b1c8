// Settings of a schedule that hold for its whole program: sequence_splits, versions, buffer.
#include "Elaborate/Elaborator.h"

#include <fmt/format.h>

namespace sluice {

/// Before sizes and placement, which count units.
bool Elaborator::evaluateSplits() {
  const CheckedSetting &setting = schedule.sequenceSplits;
  if (setting.value == noNode)
    return true;
  auto splits = evaluator.evalInteger(setting.value, "sequence_splits");
  if (!splits)
    return false;
  if (*splits < 1 || *splits > INT32_MAX) {
    diagnostics
        .report(Rule::ValueOutOfRange, setting.span,
                {{"what", fmt::format("sequence_splits = {} is {}", *splits,
                                      *splits < 1 ? "below 1" : "above 2147483647")}})
        .fix.message = "sequence_splits = 1; is a schedule of whole microbatches";
    return false;
  }
  program.sequenceSplits = static_cast<uint32_t>(*splits);
  return true;
}

/// Once the units are counted: they make up whole microbatches.
bool Elaborator::checkSplits() {
  const uint32_t splits = program.sequenceSplits, units = program.microbatches;
  if (units % splits == 0)
    return true;
  diagnostics
      .report(Rule::SizesDisagree, schedule.sequenceSplits.span,
              {{"covers", fmt::format("the schedule has {} units", units)},
               {"declaration", fmt::format("which are no whole microbatches of {} splits", splits)}})
      .fix.message = fmt::format("{} or {} units", units / splits * splits, (units / splits + 1) * splits);
  return false;
}

bool Elaborator::evaluateVersions() {
  const CheckedSetting &setting = schedule.mostVersions;
  if (setting.value == noNode)
    return true;
  auto most = evaluator.evalInteger(setting.value, "the number of versions");
  if (!most)
    return false;
  if (*most < 1 || *most > INT32_MAX) {
    diagnostics
        .report(Rule::ValueOutOfRange, setting.span,
                {{"what", fmt::format("stashed({}) keeps {}", *most,
                                      *most < 1 ? "no version at all" : "more than 2147483647")}})
        .fix.message = "stashed(1) keeps the newest alone";
    return false;
  }
  program.mostVersions = static_cast<uint32_t>(*most);
  return true;
}

std::optional<uint32_t> Elaborator::buffer(uint32_t stage, uint32_t microbatch) {
  const CheckedSetting &setting = schedule.buffer;
  if (!setting.parameters.empty())
    evaluator.set(setting.parameters[0], static_cast<int64_t>(stage));
  if (setting.parameters.size() > 1)
    evaluator.set(setting.parameters[1], static_cast<int64_t>(microbatch));
  int64_t number;
  if (!evaluator.tryInteger(setting.value, number)) {
    const size_t lists = evaluator.listMark();
    auto value = evaluator.evalInteger(setting.value, fmt::format("buffer({}, {})", stage, microbatch));
    evaluator.releaseLists(lists);
    if (!value)
      return std::nullopt;
    number = *value;
  }
  if (number >= 0 && number < INT32_MAX)
    return static_cast<uint32_t>(number);
  diagnostics.report(Rule::ValueOutOfRange, setting.span,
                     {{"what", fmt::format("buffer({}, {}) = {} is {}", stage, microbatch, number,
                                           number < 0 ? "below 0" : "above 2147483646")}});
  return std::nullopt;
}

bool Elaborator::evaluateBuffers() {
  const CheckedSetting &setting = schedule.buffer;
  if (setting.value == noNode)
    return true;
  program.bufferSpan = setting.span;
  std::vector<uint32_t> row(program.stages);
  for (uint32_t m = 0; m < program.microbatches; ++m) {
    for (uint32_t s = 0; s < program.stages; ++s) {
      if (!evaluator.spend(setting.span))
        return false;
      auto number = buffer(s, m);
      if (!number)
        return false;
      row[s] = *number;
    }
    program.buffers.addMicrobatch(row);
  }
  program.buffers.finish();
  return true;
}

} // namespace sluice
