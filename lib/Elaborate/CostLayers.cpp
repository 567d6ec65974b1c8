// Rule 806: the layers of the stages follow each other, from 0 to the last.
#include "Elaborate/CostEvaluator.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <fmt/format.h>

namespace sluice {

/// `layer 4` or `layers 4 to 6`.
static std::string layersText(int64_t first, int64_t end) {
  return end - first == 1 ? fmt::format("layer {}", first) : fmt::format("layers {} to {}", first, end - 1);
}

void CostEvaluator::checkLayers() {
  const CheckedSetting *firsts = setting(file.model, "layers.first"),
                       *lasts = setting(file.model, "layers.last");
  if (!firsts || !lasts || program.stages == 0)
    return;
  auto fault = [&](std::string layers, std::string what, std::string fix) {
    diagnostics.report(Rule::LayerCoverage, firsts->span, {{"layers", layers}, {"fault", what}}).fix.message =
        fix;
    failed = true;
  };
  auto end = [&](const CheckedSetting &of, uint32_t stage) -> std::optional<int64_t> {
    Value value = evaluator.evalSetting(indexOf(of), Value::of(Rational(stage)), of.span);
    if (!value)
      return fail();
    if (value.isPlainInteger())
      return value.number.num;
    diagnostics.report(
        Rule::NotAnInteger, of.span,
        {{"what", fmt::format("an end of layers({})", stage)}, {"value", evaluator.str(value)}});
    return fail();
  };
  llvm::SmallVector<std::pair<int64_t, int64_t>> ranges; // a stage each
  for (uint32_t stage = 0; stage < program.stages; ++stage) {
    const auto first = end(*firsts, stage), last = end(*lasts, stage);
    if (!first || !last)
      return;
    ranges.push_back({*first, std::max(*first, *last)}); // whose end is not above its start is empty
  }
  const CheckedSetting *declared = setting(file.model, "layer_count");
  int64_t count = 0; // if declared
  if (declared) {
    const auto value = evaluator.evalInteger(declared->value, "layer_count");
    if (!value) {
      failed = true;
      return;
    }
    count = *value;
  }
  int64_t next = 0; // the first layer that no stage before holds
  for (uint32_t stage = 0; stage < program.stages; ++stage) {
    const auto [first, behind] = ranges[stage];
    auto holdsNext = [next = next](const std::pair<int64_t, int64_t> &range) {
      return range.first <= next && next < range.second;
    };
    // Out of order, where a later stage holds what comes next.
    const bool isHeldLater =
        first != next && llvm::any_of(llvm::ArrayRef(ranges).drop_front(stage + 1), holdsNext);
    const bool isLast = stage + 1 == program.stages;
    const int64_t fitting = isLast && declared ? count : isHeldLater ? next + (behind - first) : behind;
    const std::string fix = fmt::format("layers({}) = {}..{}", stage, next, std::max(fitting, next));
    if (first > next && !isHeldLater)
      return fault(layersText(next, first), first - next == 1 ? "belongs to no stage" : "belong to no stage",
                   fix);
    if (first < next && first >= 0 && behind > first) {
      const int64_t shared = std::min(next, behind);
      return fault(layersText(first, shared),
                   fmt::format("{} to stage {} and to one before it",
                               shared - first == 1 ? "belongs" : "belong", stage),
                   fix);
    }
    if (first != next)
      return fault(fmt::format("stage {}", stage), fmt::format("begins at layer {}, not at {}", first, next),
                   fix);
    next = behind;
  }
  if (!declared)
    return;
  const std::string fix = fmt::format("layer_count = {}, or other layers(s)", next);
  if (count > next)
    return fault(layersText(next, count), count - next == 1 ? "belongs to no stage" : "belong to no stage",
                 fix);
  if (count < next)
    fault(layersText(std::max<int64_t>(count, 0), next),
          fmt::format("{} to stages, but layer_count is {}", next - count == 1 ? "belongs" : "belong", count),
          fix);
}

} // namespace sluice
