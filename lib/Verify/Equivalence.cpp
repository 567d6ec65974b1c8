#include "Verify/Equivalence.h"

#include "IR/Versions.h"
#include "Support/Words.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice {

llvm::StringRef name(Equivalence::Holds holds) {
  static constexpr const char *names[] = {"equal", "not equal", "not decided"};
  return names[static_cast<unsigned>(holds)];
}

/// Errors in the program itself: what an `expect` asks for says nothing about the weights.
static std::vector<Rule> rulesAgainst(llvm::ArrayRef<Finding> found) {
  std::vector<Rule> rules;
  for (const Finding &finding : found) {
    const unsigned number = info(finding.rule).number;
    // What --deny and --warn make of a rule says nothing about the weights; a mean that is taken twice is
    // one.
    const bool isHarmless = finding.rule == Rule::ReducedTwice && finding.severity == Severity::Warning;
    const bool isError = info(finding.rule).severity == Severity::Error && !isHarmless;
    if (isError && number < 900 && number / 100 != 7)
      rules.push_back(finding.rule);
  }
  llvm::sort(rules);
  rules.erase(std::unique(rules.begin(), rules.end()), rules.end());
  return rules;
}

/// Stages that some recompute runs again with new random state.
static std::vector<uint32_t> unreplayedStages(const Program &program, const CostModel &costs) {
  std::vector<bool> isRepeated(program.stages);
  if (!costs.randomStage.empty())
    for (const Op &op : program.ops)
      if (op.kind == OpKind::Recompute && !op.has(Replay) && costs.isRandom(op.stage))
        isRepeated[op.stage] = true;
  std::vector<uint32_t> stages;
  for (uint32_t s = 0; s < program.stages; ++s)
    if (isRepeated[s])
      stages.push_back(s);
  return stages;
}

static std::vector<std::string> notPromised(const Program &program, const CostModel &costs) {
  std::vector<std::string> list;
  std::vector<uint32_t> normed;
  for (uint32_t s = 0; s < costs.batchNormStage.size(); ++s)
    if (costs.batchNormStage[s])
      normed.push_back(s);
  list.push_back("batch norm statistics, which are those of microbatches" +
                 (normed.empty() ? std::string(" where a model has any")
                                 : fmt::format(" ({})", listed("stage", "stages", normed))));
  list.push_back("floating-point order");
  if (std::vector<uint32_t> stages = unreplayedStages(program, costs); !stages.empty())
    list.push_back(
        fmt::format("random state ({}: recomputed without `replay`)", listed("stage", "stages", stages)));
  return list;
}

/// Updates between the version that a forward read and the one that its gradient is applied to.
static uint32_t mostStaleness(const Program &program) {
  const VersionFigures figures = versionFigures(program, versionsOf(program));
  return figures.staleness.empty() ? 0
                                   : *std::max_element(figures.staleness.begin(), figures.staleness.end());
}

Equivalence equivalenceOf(const Program &program, const CostModel &costs, llvm::ArrayRef<Finding> found) {
  Equivalence verdict;
  verdict.rules = rulesAgainst(found);
  if (program.isEvaluation) {
    verdict.reason = "an evaluation changes no weights";
    return verdict;
  }
  if (llvm::none_of(program.ops, [](const Op &op) { return op.kind == OpKind::Update; })) {
    verdict.reason = "no update in the schedule";
    return verdict;
  }
  verdict.holds = Equivalence::Holds::No;
  if (!verdict.rules.empty()) {
    std::vector<std::string> rules;
    for (Rule rule : verdict.rules)
      rules.push_back(fmt::format("{} {}", info(rule).number, info(rule).name.str()));
    verdict.reason = llvm::join(rules, ", ");
    return verdict;
  }
  if (costs.asynchronous) {
    const uint32_t staleness = mostStaleness(program);
    if (staleness > 0) {
      verdict.reason = fmt::format("asynchronous: gradients are up to {} old when they are applied",
                                   counted(staleness, "update", "updates"));
      return verdict;
    }
  }
  verdict.holds = Equivalence::Holds::Yes;
  verdict.reason =
      fmt::format("one version of the weights, every contribution once, factors as declared ({}), "
                  "every reduction before its update",
                  costs.loss);
  verdict.notPromised = notPromised(program, costs);
  return verdict;
}

std::string str(const Equivalence &equivalence) {
  static constexpr const char *verdicts[] = {"the step equals unpipelined training",
                                             "the step does not equal unpipelined training",
                                             "not decided whether the step equals unpipelined training"};
  std::string text =
      fmt::format("{}: {}", verdicts[static_cast<unsigned>(equivalence.holds)], equivalence.reason);
  if (!equivalence.notPromised.empty())
    text += "; not promised: " + llvm::join(equivalence.notPromised, ", ");
  return text;
}

} // namespace sluice
