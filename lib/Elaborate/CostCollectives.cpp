// Updates, and what several devices or replicas do together: reductions of gradients and gathers of weights,
// at latency + size ÷ bandwidth. 814 transfers-disagree: `transfers = blocking` with communication that is
// not placed early.
#include "Elaborate/CostEvaluator.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

/// A value per stage of the model; empty where it gives none or no op asks for it.
void CostEvaluator::evaluateUpdates() {
  auto perStage = [&](const char *name, OpKind kind, std::vector<Rational> &times) {
    const CheckedSetting *found = setting(file.model, name);
    if (!found) {
      if (isUsed(kind) && kind == OpKind::Update)
        costs.notCounted.push_back(name);
      return;
    }
    const Rationals values = table(*found, timeDimension);
    if (!failed && isUsed(kind))
      times.assign(values.all().begin(), values.all().begin() + program.stages);
  };
  perStage("update", OpKind::Update, update);
  perStage("reduce", OpKind::Reduce, reduce);
}

Rational CostEvaluator::timeTogether(uint64_t members, int64_t bytes) {
  if (!file.cluster || !file.cluster->collective || members < 2 || failed)
    return 0;
  const CheckedLink &block = *file.cluster->collective;
  auto [entry, isNew] = together.try_emplace(members);
  if (isNew) {
    if (!block.parameters.empty())
      evaluator.set(block.parameters[0], static_cast<int64_t>(members));
    auto found = moving(block);
    if (!found)
      return 0;
    entry->second = *found;
  }
  return timeToMove(entry->second, bytes, block.span,
                    [&] { return fmt::format("the time of a collective of {} members", members); })
      .value_or(Rational(0));
}

void CostEvaluator::evaluateReductions() {
  const bool hasBlock = file.cluster && file.cluster->collective;
  if (isUsed(OpKind::Reduce) && reduce.empty()) {
    std::vector<Rational> times;
    bool isJoint = false;
    for (uint32_t s = 0; s < program.stages; ++s) {
      const uint64_t members = program.devicesOf(s).size() * replicas();
      isJoint |= members > 1;
      times.push_back(timeTogether(members, costs.gradients[s]));
    }
    if (isJoint && hasBlock)
      reduce = std::move(times);
    else if (isJoint)
      costs.notCounted.push_back("reduce");
  }
  if (!isUsed(OpKind::ReduceTied))
    return;
  std::vector<Rational> times;
  bool isJoint = false;
  for (const TiedWeight &tied : program.ties) {
    std::vector<uint32_t> devices;
    for (uint32_t stage : tied.stages)
      llvm::append_range(devices, program.devicesOf(stage));
    llvm::sort(devices);
    devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
    isJoint |= devices.size() * replicas() > 1;
    times.push_back(timeTogether(devices.size() * replicas(), 0));
  }
  if (isJoint && hasBlock)
    reduceTied = std::move(times);
  else if (isJoint)
    costs.notCounted.push_back("reduce_tied");
}

/// Over replicas alone: each holds a shard of the weights.
void CostEvaluator::evaluateGathers() {
  if (!isUsed(OpKind::Unshard) || costs.replicas == 1)
    return;
  if (!file.cluster || !file.cluster->collective) {
    costs.notCounted.push_back("unshard");
    return;
  }
  for (uint32_t s = 0; s < program.stages; ++s)
    unshard.push_back(timeTogether(replicas(), costs.weights[s]));
}

void CostEvaluator::checkBlocking() {
  if (!costs.transfersBlock)
    return;
  if (!program.skips.empty() && !program.isExplicit) {
    diagnostics
        .report(Rule::NotSupportedYet, program.skips.front().span,
                {{"what", "`transfers = blocking` over skip edges"}})
        .fix.message = "transfers = overlapped;";
    failed = true;
  }
  if (costs.communication == "early")
    return;
  const CheckedSetting &blocking = *setting(file.cluster, "transfers");
  Finding &finding = diagnostics.report(
      Rule::TransfersDisagree, blocking.span,
      {{"schedule", program.name.empty() ? schedule.name : program.name},
       {"communication",
        program.isExplicit ? "explicit" : fmt::format("inferred({})", costs.communication)}});
  if (const Span said =
          schedule.communicationSpan.isValid() ? schedule.communicationSpan : schedule.firstCommunication;
      said.isValid())
    finding.notes.push_back({"its communication", said, {}, {}});
  finding.fix.message =
      program.isExplicit ? "transfers = overlapped;: what is written blocks by itself where it has no `start`"
                         : "communication = inferred(early);, or transfers = overlapped;";
  failed = true;
}

} // namespace sluice
