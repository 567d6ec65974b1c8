// Durations of ops, and the unit that all times are whole multiples of.
#include "Elaborate/CostEvaluator.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <numeric>

namespace sluice {

CostEvaluator::Rationals CostEvaluator::combine(const Rationals &a, const Rationals &b, bool subtracting,
                                                llvm::StringRef what) {
  auto cell = [&](uint32_t s, uint32_t m) {
    auto result = subtracting ? subtract(a.at(s, m), b.at(s, m)) : add(a.at(s, m), b.at(s, m));
    if (!result || result->num < 0) {
      if (!failed)
        diagnostics.report(
            Rule::ValueOutOfRange, costs.declaredAt["backward"],
            {{"what", fmt::format("{} of stage {} {}", what.str(), s, result ? "is below 0" : "overflows")}});
      failed = true;
      return Rational(0);
    }
    return *result;
  };
  std::vector<Rational> row(program.stages);
  Rationals result;
  bool fixed = a.rowCount() == 1 && b.rowCount() == 1;
  for (uint32_t m = 0; m < (fixed ? 1 : program.microbatches); ++m) {
    for (uint32_t s = 0; s < program.stages; ++s)
      row[s] = cell(s, m);
    result.addMicrobatch(row);
  }
  result.finish();
  return fixed ? Rationals(row) : result;
}

void CostEvaluator::evaluateTimes() {
  costs.isDefault = false;
  auto given = [&](const char *name) { return setting(file.model, name); };
  auto evaluated = [&](const char *name) {
    const CheckedSetting *found = given(name);
    return found ? table(*found, timeDimension) : zeros();
  };
  forward = evaluated("forward");
  if (!given("forward") && isUsed(OpKind::Forward))
    missing("forward", "forward");
  recompute = given("recompute") ? evaluated("recompute") : forward;
  backward = evaluated("backward");
  backwardInput = evaluated("backward_input");
  backwardWeight = evaluated("backward_weight");
  if (failed)
    return;
  bool whole = given("backward"), input = given("backward_input"), weight = given("backward_weight");
  bool halvesUsed = isUsed(OpKind::BackwardInput) || isUsed(OpKind::BackwardWeight);
  if (whole && input && weight)
    checkWhole();
  else if (input && weight)
    backward = combine(backwardInput, backwardWeight, false, "backward");
  else if (whole && input)
    backwardWeight = combine(backward, backwardInput, true, "backward_weight");
  else if (whole && weight)
    backwardInput = combine(backward, backwardWeight, true, "backward_input");
  else if (halvesUsed)
    missing(isUsed(OpKind::BackwardInput) ? "backward_input" : "backward_weight",
            input ? "backward_weight" : "backward_input");
  else if (!whole && isUsed(OpKind::Backward))
    missing("backward", "backward");
  evaluateOverlaps();
  checkMeasured();
}

void CostEvaluator::checkWhole() {
  // What was measured is as it was measured.
  auto isMeasured = [&](const char *name) { return setting(file.model, name)->isMeasured; };
  if (setting(file.model, "fused") || isMeasured("backward") || isMeasured("backward_input") ||
      isMeasured("backward_weight"))
    return;
  for (uint32_t m = 0; m < program.microbatches; ++m)
    for (uint32_t s = 0; s < program.stages; ++s) {
      auto sum = add(backwardInput.at(s, m), backwardWeight.at(s, m));
      if (sum && *sum == backward.at(s, m))
        continue;
      auto shown = [&](const Rational &time) { return firstTime.isValid() ? formatTime(time) : time.str(); };
      diagnostics
          .report(Rule::CostsDisagree, costs.declaredAt["backward"],
                  {{"stage", std::to_string(s)},
                   {"whole", shown(backward.at(s, m))},
                   {"input", shown(backwardInput.at(s, m))},
                   {"weight", shown(backwardWeight.at(s, m))}})
          .fix.message = "give two of the three, or say `fused;`";
      failed = true;
      return;
    }
}

void CostEvaluator::evaluateOverlaps() {
  const CheckedSetting *found = setting(file.model, "overlapped");
  if (!found || failed)
    return;
  costs.declaredAt[found->name] = found->span;
  std::vector<std::pair<uint32_t, uint32_t>> whole; // with a whole backward: what the setting is meant for
  for (OpId id = 0; id + 1 < program.size(); ++id) {
    if (!program.ops[id].has(OverlapFirst) || program.groupEnd(id) != id + 2)
      continue;
    const Op *first = &program.ops[id], *second = first + 1;
    if (first->kind != OpKind::Forward)
      std::swap(first, second);
    std::pair<uint32_t, uint32_t> stages{first->stage, second->stage};
    if (first->kind != OpKind::Forward || second->kind == OpKind::Forward || overlapped.count(stages))
      continue;
    Value arguments[] = {Value::of(Rational(stages.first)), Value::of(Rational(stages.second))};
    auto time = value(*found, arguments, timeDimension);
    if (!time)
      return;
    overlapped[stages] = *time;
    if (second->kind == OpKind::Backward)
      whole.push_back(stages);
  }
  if (overlapped.empty())
    checkUnusedOverlaps(*found);
  else
    checkOverlapped(*found, whole, overlapped);
}

void CostEvaluator::checkOverlapSums() {
  int64_t sum = 0;
  for (OpId id = 0; id < program.size(); ++id) {
    const Op &op = program.ops[id];
    if (!op.has(OverlapFollower))
      sum = 0;
    if (!__builtin_add_overflow(sum, durationOf(costs, op), &sum))
      continue;
    diagnostics
        .report(Rule::ValueOutOfRange, program.spanOf(id),
                {{"what", "the ops of the overlap take more than 64 bits of time"}})
        .fix.message = "rounder costs, or a coarser unit";
    failed = true;
    return;
  }
}

/// Transfers that share a lane fairly progress in parts of the unit; so many leave none over for up to ten at
/// once.
static constexpr int fairParts = 2520;

bool CostEvaluator::hasFairLane() const {
  auto isFair = [&](const Route &route) {
    return route.lane != noLane && costs.links[route.link].sharing == Sharing::Fair;
  };
  return llvm::any_of(costs.routes, isFair) || llvm::any_of(costs.hostRoutes, isFair);
}

void CostEvaluator::chooseUnit() {
  costs.ticks = !firstTime.isValid();
  costs.displayUnit = costs.ticks ? "" : file.timeUnit.empty() ? "ns" : file.timeUnit;
  __int128 numerator = 0, denominator = 1;
  bool fits = true;
  auto include = [&](const Rational &time) {
    if (time.num == 0 || !fits)
      return;
    numerator = std::gcd(static_cast<int64_t>(numerator), time.num);
    denominator = denominator / std::gcd(static_cast<int64_t>(denominator), time.den) * time.den;
    fits = denominator <= INT64_MAX;
  };
  const Rationals *tables[] = {&forward,          &recompute,      &backward,
                               &backwardInput,    &backwardWeight, &activationTransfer,
                               &gradientTransfer, &offload,        &reload};
  for (const Rationals *times : tables)
    llvm::for_each(times->all(), include);
  for (const Rationals &times : skipTransfer)
    llvm::for_each(times.all(), include);
  for (const auto &[stages, time] : overlapped)
    include(time);
  for (const auto *times : {&update, &reduce, &unshard, &reduceTied, &routeLatency, &hostLatency})
    llvm::for_each(*times, include);
  auto unit =
      Rational::make(numerator == 0 ? 1 : numerator, hasFairLane() ? denominator * fairParts : denominator);
  auto convert = [&](const Rational &time) -> int64_t {
    auto count = unit ? divide(time, *unit) : std::nullopt;
    fits = fits && count && count->isInteger();
    return count ? count->num : 0;
  };
  if (fits && unit) {
    costs.unit = *unit;
    costs.forward = forward.mapped(convert);
    costs.recompute = recompute.mapped(convert);
    costs.backward = backward.mapped(convert);
    costs.backwardInput = backwardInput.mapped(convert);
    costs.backwardWeight = backwardWeight.mapped(convert);
    costs.activationTransfer = activationTransfer.mapped(convert);
    costs.gradientTransfer = gradientTransfer.mapped(convert);
    for (const Rationals &times : skipTransfer)
      costs.skipTransfer.push_back(times.mapped(convert));
    for (const auto &[stages, time] : overlapped)
      costs.overlapped[stages] = convert(time);
    costs.offload = offload.mapped(convert);
    costs.reload = reload.mapped(convert);
    auto convertAll = [&](const std::vector<Rational> &times, std::vector<int64_t> &counts) {
      llvm::transform(times, std::back_inserter(counts), convert);
    };
    convertAll(update, costs.update);
    convertAll(reduce, costs.reduce);
    convertAll(unshard, costs.unshard);
    convertAll(reduceTied, costs.reduceTied);
    for (size_t i = 0; i < routeLatency.size(); ++i)
      costs.routes[i].latency = convert(routeLatency[i]);
    for (size_t i = 0; i < hostLatency.size(); ++i)
      costs.hostRoutes[i].latency = convert(hostLatency[i]);
  }
  if (fits && unit)
    return;
  diagnostics
      .report(Rule::ValueOutOfRange, file.model->span,
              {{"what", "the times have no common unit that fits 64 bits"}})
      .fix.message = "rounder costs and bandwidths";
  failed = true;
}

} // namespace sluice
