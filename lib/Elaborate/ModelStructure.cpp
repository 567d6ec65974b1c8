// What the model says of stages beside the chain: skip edges and tied weights.
#include "Elaborate/Elaborator.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

std::optional<uint32_t> Elaborator::stageNamed(NodeId node, llvm::StringRef what, Span span) {
  auto stage = evaluator.evalInteger(node, "the stage");
  if (!stage)
    return std::nullopt;
  if (*stage >= 0 && *stage < static_cast<int64_t>(program.stages))
    return static_cast<uint32_t>(*stage);
  diagnostics.report(Rule::IndexOutOfRange, span,
                     {{"op", what.str()},
                      {"what", "stage"},
                      {"index", std::to_string(*stage)},
                      {"bound", fmt::format("stages are 0 to {}", program.stages - 1)}});
  return std::nullopt;
}

/// Those of the model, ascending; `edge s -> s + 1` would be a second one beside the chain's own.
bool Elaborator::evaluateSkips() {
  const auto &model = evaluator.checked().model;
  if (!model)
    return true;
  bool good = true;
  for (const CheckedEdge &edge : model->edges) {
    auto from = stageNamed(edge.from, "edge", edge.span), to = stageNamed(edge.to, "edge", edge.span);
    if (!from || !to) {
      good = false;
      continue;
    }
    const SkipEdge skip{*from, *to, edge.hasGradient, edge.span};
    auto known = llvm::find_if(
        program.skips, [&](const SkipEdge &other) { return other.from == skip.from && other.to == skip.to; });
    if (skip.to < skip.from + 2 || known != program.skips.end()) {
      const std::string name = fmt::format("edge {} -> {}", skip.from, skip.to);
      diagnostics
          .report(Rule::WrongArguments, edge.span,
                  {{"what", known != program.skips.end() ? name + " is declared twice"
                            : skip.to == skip.from + 1
                                ? name + " is the chain's own: a skip edge passes over a stage"
                                : name + " leads back: values flow to later stages"}})
          .fix.message = known != program.skips.end() ? "one edge that carries both"
                         : skip.to == skip.from + 1   ? "give its size as boundary(s)"
                                                      : fmt::format("edge {} -> {}", skip.to, skip.from);
      good = false;
      continue;
    }
    program.skips.push_back(skip);
  }
  llvm::sort(program.skips, [](const SkipEdge &a, const SkipEdge &b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  return good;
}

bool Elaborator::evaluateTies() {
  const auto &model = evaluator.checked().model;
  if (!model)
    return true;
  for (const CheckedTied &tied : model->tied) {
    TiedWeight weight{tied.name, {}, tied.span};
    for (NodeId node : tied.stages) {
      auto stage = stageNamed(node, fmt::format("tied {} on", tied.name), tied.span);
      if (!stage)
        return false;
      // With P = 1 the first and the last stage are one: a weight tied to itself.
      if (!llvm::is_contained(weight.stages, *stage))
        weight.stages.push_back(*stage);
    }
    program.ties.push_back(std::move(weight));
  }
  return true;
}

} // namespace sluice
