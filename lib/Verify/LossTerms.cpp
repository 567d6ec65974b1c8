#include "Verify/LossTerms.h"

#include "Support/Words.h"
#include "Verify/Faults.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

LossTerms::LossTerms(const Program &program, const CostModel &costs)
    : costs(costs), replicas(costs.replicas.value_or(1)), isOverTokens(costs.loss == "mean over tokens"),
      sizes(isOverTokens ? costs.tokens : costs.samples) {
  sizes.resize(sizes.empty() ? 0 : program.wholeMicrobatches(), 1);
}

void LossTerms::add(Group &group, uint32_t microbatch) const {
  if (group.microbatches++ == 0)
    group.smallest = group.largest = microbatch;
  if (sizeOf(microbatch) < sizeOf(group.smallest))
    group.smallest = microbatch;
  if (sizeOf(microbatch) > sizeOf(group.largest))
    group.largest = microbatch;
  group.overflows |= __builtin_add_overflow(group.size, sizeOf(microbatch), &group.size);
}

static std::optional<Rational> inverse(const Rational &a, int64_t b, int64_t c = 1) {
  std::optional<Rational> product = multiply(a, Rational(b));
  product = product ? multiply(*product, Rational(c)) : std::nullopt;
  return product ? divide(1, *product) : std::nullopt;
}

std::optional<Rational> LossTerms::target(const Group &group, uint32_t microbatch) const {
  if (costs.loss == "sum")
    return Rational(1);
  if (costs.loss == "mean over microbatches")
    return inverse(replicas, group.microbatches, sizeOf(microbatch));
  return group.overflows ? std::nullopt : inverse(replicas, group.size);
}

std::optional<Rational> LossTerms::own(uint32_t microbatch) const {
  return costs.microbatchLossIsSum ? Rational(1) : inverse(1, sizeOf(microbatch));
}

bool LossTerms::isServedByOneFactor(const Group &group) const {
  // A mean over microbatches wants means, all else sums.
  const bool isAsWanted = (costs.loss == "mean over microbatches") != costs.microbatchLossIsSum;
  return isAsWanted || sizeOf(group.smallest) == sizeOf(group.largest);
}

/// The line of a setting of `training`; else of the schedule.
static Span declaredSpan(const VerifyContext &context, std::initializer_list<const char *> settings) {
  for (const char *setting : settings)
    if (auto declared = context.costs.declaredAt.find(setting); declared != context.costs.declaredAt.end())
      return declared->second;
  return context.program.span;
}

static bool reportEmpty(VerifyContext &context) {
  const CostModel &costs = context.costs;
  const bool takesMeans = costs.loss == "mean over microbatches" || !costs.microbatchLossIsSum;
  const bool isOverTokens = costs.loss == "mean over tokens";
  const std::vector<int64_t> &sizes = isOverTokens ? costs.tokens : costs.samples;
  const bool isNothing =
      costs.loss != "sum" && !sizes.empty() && llvm::all_of(sizes, [](int64_t size) { return size == 0; });
  if (!takesMeans && !isNothing)
    return true;
  std::vector<uint32_t> empty;
  for (uint32_t m = 0; m < sizes.size(); ++m)
    if (sizes[m] == 0)
      empty.push_back(m);
  if (empty.empty())
    return true;
  Finding &finding = context.diagnostics.report(
      Rule::EmptyMicrobatch, declaredSpan(context, {isOverTokens ? "tokens" : "samples", "loss"}),
      {{"microbatch", fmt::format("{}", empty.front())}, {"units", isOverTokens ? "tokens" : "samples"}});
  if (empty.size() > 1)
    finding.notes.push_back({fmt::format("the same holds for {}", listed("microbatch", "microbatches",
                                                                         {empty.begin() + 1, empty.end()})),
                             {},
                             {},
                             ""});
  finding.fix.message = !isNothing && costs.loss != "mean over microbatches"
                            ? "microbatch_loss = sum;, or leave the microbatch out"
                            : "leave the microbatch out";
  context.hasErrors = true;
  return false;
}

static void reportMeanOfMeans(VerifyContext &context) {
  const CostModel &costs = context.costs;
  if (costs.loss != "mean over microbatches")
    return;
  for (bool isTokens : {true, false}) {
    const std::vector<int64_t> &sizes = isTokens ? costs.tokens : costs.samples;
    if (sizes.empty())
      continue;
    const auto [few, many] = std::minmax_element(sizes.begin(), sizes.end());
    if (*few == *many)
      continue;
    auto weight = [&](int64_t size) {
      auto all = inverse(costs.replicas.value_or(1), context.program.wholeMicrobatches(), size);
      return all ? all->str() : fmt::format("1/({} x {})", context.program.wholeMicrobatches(), size);
    };
    const char *units = isTokens ? "tokens" : "samples";
    // Named in one order: what is in the smaller microbatch weighs more.
    Finding &finding = context.diagnostics.report(Rule::MeanOfMeans, declaredSpan(context, {"loss"}),
                                                  {{"few", fmt::format("{}", *few)},
                                                   {"many", fmt::format("{}", *many)},
                                                   {"units", units},
                                                   {"light", weight(*few)},
                                                   {"heavy", weight(*many)}});
    finding.notes.push_back({fmt::format("microbatch {} has {}, microbatch {} has {}", few - sizes.begin(),
                                         *few, many - sizes.begin(), *many),
                             declaredSpan(context, {isTokens ? "tokens" : "samples", "batch", "loss"}),
                             {},
                             ""});
    finding.fix.message = fmt::format("loss = mean over {};", units);
    return;
  }
}

bool verifyLossTerms(VerifyContext &context) {
  if (context.costs.samples.empty() && context.costs.tokens.empty())
    return true;
  if (!reportEmpty(context))
    return false;
  reportMeanOfMeans(context);
  return true;
}

} // namespace sluice
