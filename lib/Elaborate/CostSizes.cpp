// Sizes in bytes, and the stages that settings name.
#include "Elaborate/CostEvaluator.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

std::vector<int64_t> CostEvaluator::bytesOf(const Rationals &sizes, const CheckedSetting &of) {
  std::vector<int64_t> result;
  for (const Rational &size : sizes.all()) {
    if (!size.isInteger() && !failed) {
      diagnostics.report(Rule::NotAnInteger, of.span, {{"what", of.name}, {"value", size.str() + " B"}})
          .fix.message = "floor(...) or ceil(...) of the bytes";
      failed = true;
    }
    result.push_back(size.num);
  }
  return result;
}

StageTable<int64_t> CostEvaluator::sizes(const char *name, const StageTable<int64_t> &otherwise) {
  const CheckedSetting *found = setting(file.model, name);
  if (!found)
    return otherwise;
  Rationals values = table(*found, sizeDimension);
  bytesOf(values, *found);
  return values.mapped([](const Rational &size) { return size.num; });
}

void CostEvaluator::evaluateSizes() {
  StageTable<int64_t> none(std::vector<int64_t>(program.stages, 0));
  costs.boundary = sizes("boundary", none);
  costs.activation = sizes("activation", none);
  costs.keptInput = sizes("kept_input", costs.boundary);
  costs.pending = sizes("pending", costs.activation);
  auto perStage = [&](const char *name) {
    StageTable<int64_t> values = sizes(name, none);
    return std::vector<int64_t>(values.all().begin(), values.all().begin() + program.stages);
  };
  costs.weights = perStage("weights");
  costs.gradients = perStage("gradients");
  costs.optimizerState = perStage("optimizer_state");
  costs.workspace = perStage("workspace");
  for (const char *name : {"activation", "boundary", "weights", "gradients", "optimizer_state"})
    if (!setting(file.model, name))
      costs.notCounted.push_back(name);
  auto mark = [&](const char *name, std::vector<bool> &stages) {
    const CheckedSetting *found = setting(file.model, name);
    if (!found)
      return;
    costs.declaredAt[name] = found->span;
    stages.assign(program.stages, false);
    for (NodeId operand : found->operands) {
      auto stage = evaluator.evalInteger(operand, "the stage");
      if (stage && *stage >= 0 && *stage < static_cast<int64_t>(program.stages)) {
        stages[static_cast<size_t>(*stage)] = true;
        continue;
      }
      if (stage)
        diagnostics.report(Rule::IndexOutOfRange, found->span,
                           {{"op", fmt::format("{} on", name)},
                            {"what", "stage"},
                            {"index", std::to_string(*stage)},
                            {"bound", fmt::format("stages are 0 to {}", program.stages - 1)}});
      failed = true;
    }
  };
  mark("random", costs.randomStage);
  mark("batch_norm", costs.batchNormStage);
  evaluateSkips();
}

/// What each skip edge carries: its own boundary, else that of the stage it leaves.
void CostEvaluator::evaluateSkips() {
  for (const SkipEdge &skip : program.skips) {
    const CheckedEdge &edge = *llvm::find_if(
        file.model->edges, [&](const CheckedEdge &written) { return written.span == skip.span; });
    StageTable<int64_t> sizes;
    for (uint32_t m = 0; m < program.microbatches && !failed; ++m) {
      int64_t bytes = 0;
      if (edge.boundary == ~0u) {
        bytes = costs.boundary.at(skip.from, m);
      } else {
        const CheckedSetting &boundary = file.settings[edge.boundary];
        auto size = value(boundary, Value::of(Rational(m)), sizeDimension);
        const Rationals row(std::vector<Rational>{size.value_or(Rational(0))});
        bytes = bytesOf(row, boundary)[0];
      }
      sizes.addMicrobatch(std::vector<int64_t>{bytes});
    }
    sizes.finish();
    costs.skipBoundary.push_back(std::move(sizes));
  }
}

} // namespace sluice
