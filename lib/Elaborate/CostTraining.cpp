// Samples: what batch, microbatches, replicas and samples(m) say together.
#include "Elaborate/Costs.h"

#include "Elaborate/CostEvaluator.h"

#include <fmt/format.h>
#include <numeric>

namespace sluice {

std::optional<int64_t> CostEvaluator::count(const char *name) {
  const CheckedSetting *found = setting(file.training, name);
  if (!found || found->value == noNode)
    return std::nullopt;
  costs.declaredAt[name] = found->span;
  auto value = evaluator.evalInteger(found->value, name);
  if (!value)
    return fail();
  if (*value >= 1)
    return value;
  diagnostics.report(Rule::ValueOutOfRange, found->span,
                     {{"what", fmt::format("{} = {} is below 1", name, *value)}});
  return fail();
}

/// `semantics = asynchronous(staleness <= k)`
void CostEvaluator::evaluateSemantics() {
  const CheckedSetting *found = setting(file.training, "semantics");
  costs.asynchronous = found && !found->words.empty() && found->words[0] == "asynchronous";
  if (!costs.asynchronous || found->operands.empty() || found->operands[0] == noNode)
    return;
  costs.declaredAt["semantics"] = found->span;
  costs.stalenessBound = evaluator.evalInteger(found->operands[0], "the staleness");
  if (!costs.stalenessBound) {
    failed = true;
  } else if (*costs.stalenessBound < 0) {
    diagnostics.report(Rule::ValueOutOfRange, found->span,
                       {{"what", fmt::format("staleness <= {} is below 0", *costs.stalenessBound)}});
    failed = true;
  }
}

bool CostEvaluator::evaluateTraining() {
  if (!file.training)
    return true;
  evaluateSemantics();
  costs.replicas = count("replicas");
  costs.batch = count("batch");
  auto each = count("microbatch_samples");
  if (held) {
    const bool isBatch = held->of == HeldSamples::Of::Batch;
    costs.batch = isBatch ? held->count : std::nullopt;
    each = isBatch ? std::nullopt : held->count;
    costs.declaredAt.try_emplace("batch", file.training->span); // where it is held it may be what disagrees
  }
  evaluateGradientTerms();
  if (failed || !evaluateTokens())
    return false;
  if (costs.batch && each) {
    diagnostics
        .report(Rule::SizesDisagree, costs.declaredAt["microbatch_samples"],
                {{"covers", "microbatch_samples is held when M changes"}, {"declaration", "and so is batch"}})
        .fix.message = "give one of the two";
    return false;
  }
  if (each && file.uniformSamples == noSlot) {
    diagnostics
        .report(Rule::SizesDisagree, costs.declaredAt["microbatch_samples"],
                {{"covers", "microbatch_samples gives every microbatch as many"},
                 {"declaration", "and samples(m) gives each its own"}})
        .fix.message = "give one of the two";
    return false;
  }
  setUniformSamples(evaluator, program.wholeMicrobatches(), held);
  const CheckedSetting &samples = *setting(file.training, "samples");
  bool written = file.uniformSamples == noSlot;
  if (!written && !costs.batch && !each)
    return true;
  checkListLength(samples, program.wholeMicrobatches(), "microbatches");
  if (failed)
    return false;
  int64_t sum = 0;
  for (uint32_t m = 0; m < program.wholeMicrobatches(); ++m) {
    Value value = evaluator.evalSetting(indexOf(samples), Value::of(Rational(m)), samples.span);
    if (!value)
      return fail(), false;
    if (!written && !value.number.isInteger())
      return batchMismatch(value.number), false;
    if (value.isPlainInteger() && value.number.num < 0) {
      diagnostics.report(Rule::ValueOutOfRange, samples.span,
                         {{"what", fmt::format("samples({}) = {} is below 0", m, value.number.num)}});
      return fail(), false;
    }
    if (!value.isPlainInteger()) {
      diagnostics.report(Rule::NotAnInteger, samples.span,
                         {{"what", fmt::format("samples({})", m)}, {"value", evaluator.str(value)}});
      return fail(), false;
    }
    costs.samples.push_back(value.number.num);
    if (__builtin_add_overflow(sum, value.number.num, &sum)) {
      diagnostics.report(Rule::ValueOutOfRange, samples.span, {{"what", "the samples overflow"}});
      return fail(), false;
    }
  }
  if (written)
    costs.declaredAt["samples"] = samples.span;
  auto total = multiply(Rational(sum), Rational(costs.replicas.value_or(1)));
  if (costs.batch && (!total || total->num != *costs.batch))
    return batchMismatch({}), false;
  if (!costs.batch && total)
    costs.batch = total->num;
  return true;
}

/// Loss, scale, reduction: what rules 507 to 513 compare with.
void CostEvaluator::evaluateGradientTerms() {
  auto word = [&](const char *name, auto &&take) {
    const CheckedSetting *found = setting(file.training, name);
    if (!found || found->words.empty())
      return;
    costs.declaredAt[name] = found->span;
    take(llvm::StringRef(found->words[0]));
  };
  word("loss", [&](llvm::StringRef loss) { costs.loss = loss; });
  word("scale", [&](llvm::StringRef place) {
    using Scaling = TrainingTerms::Scaling;
    costs.scaling = place == "accumulator" ? Scaling::Accumulator
                    : place == "reduced"   ? Scaling::Reduced
                    : place == "program"   ? Scaling::Program
                                           : Scaling::Loss;
  });
  word("microbatch_loss", [&](llvm::StringRef is) { costs.microbatchLossIsSum = is == "sum"; });
  word("reduction", [&](llvm::StringRef is) { costs.reductionIsMean = is == "mean"; });
  word("reduced", [&](llvm::StringRef is) {
    costs.isSharded = is.starts_with("sharded");
    costs.isCopied = is.ends_with("copied");
  });
  word("contributions", [&](llvm::StringRef are) { costs.keepsContributions = are == "separate"; });
  word("after_reduce", [&](llvm::StringRef) { costs.reshardsAfterReduce = true; });
}

/// `tokens(m)`: the loss tokens of each microbatch.
bool CostEvaluator::evaluateTokens() {
  const CheckedSetting *tokens = setting(file.training, "tokens");
  if (!tokens || tokens->value == noNode) {
    if (costs.loss != "mean over tokens")
      return true;
    diagnostics
        .report(Rule::ValueMissing, costs.declaredAt["loss"],
                {{"figure", "mean over tokens"}, {"setting", "`tokens(m)`"}})
        .fix.message = "tokens(m) = ...; in the training";
    return fail(), false;
  }
  costs.declaredAt["tokens"] = tokens->span;
  checkListLength(*tokens, program.wholeMicrobatches(), "microbatches");
  int64_t sum = 0;
  for (uint32_t m = 0; m < program.wholeMicrobatches() && !failed; ++m) {
    const size_t lists = evaluator.listMark();
    Value value = evaluator.evalSetting(indexOf(*tokens), Value::of(Rational(m)), tokens->span);
    evaluator.releaseLists(lists);
    if (!value)
      return fail(), false;
    if (!value.isPlainInteger()) {
      diagnostics.report(Rule::NotAnInteger, tokens->span,
                         {{"what", fmt::format("tokens({})", m)}, {"value", evaluator.str(value)}});
      return fail(), false;
    }
    const int64_t count = value.number.num;
    if (count < 0 || __builtin_add_overflow(sum, count, &sum)) {
      diagnostics.report(Rule::ValueOutOfRange, tokens->span,
                         {{"what", count < 0 ? fmt::format("tokens({}) = {} is below 0", m, count)
                                             : "the tokens overflow"}});
      return fail(), false;
    }
    costs.tokens.push_back(count);
  }
  return !failed;
}

void CostEvaluator::batchMismatch(const std::optional<Rational> &fraction) {
  int64_t replicas = costs.replicas.value_or(1);
  std::optional<Rational> held;
  if (fraction)
    held = multiply(Rational(fraction->floor()), Rational(program.wholeMicrobatches()));
  else
    held = Rational(std::accumulate(costs.samples.begin(), costs.samples.end(), int64_t(0)));
  held = held ? multiply(*held, Rational(replicas)) : held;
  diagnostics
      .report(Rule::BatchMismatch, costs.declaredAt["batch"],
              {{"microbatches", fmt::format("{} microbatches{}{}", program.wholeMicrobatches(),
                                            replicas > 1 ? fmt::format(" x {} replicas", replicas) : "",
                                            fraction ? " of equal size" : "")},
               {"samples", held ? held->str() : "more than 2^63"},
               {"batch", std::to_string(*costs.batch)}})
      .fix.message = !held || held->num == 0
                         ? fmt::format("batch = {}, fewer microbatches, or samples(m)",
                                       replicas * static_cast<int64_t>(program.wholeMicrobatches()))
                         : fmt::format("batch = {}, or samples(m) that add up to it", held->num);
  failed = true;
}

void setUniformSamples(Evaluator &evaluator, std::optional<uint32_t> microbatches,
                       const std::optional<HeldSamples> &held) {
  const CheckedFile &file = evaluator.checked();
  if (!file.training)
    return;
  const auto &settings = file.training->settings;
  auto count = [&](const char *name) -> std::optional<Rational> {
    auto found = settings.find(name);
    if (found == settings.end())
      return std::nullopt;
    Value value = evaluator.evalSetting(found->second, {}, file.settings[found->second].span);
    if (!value.isPlainInteger() || value.number.num < 1)
      return std::nullopt; // reported where it is used
    return value.number;
  };
  auto parts = [&]() -> std::optional<Rational> {
    auto counted = microbatches ? std::optional(Rational(*microbatches)) : count("microbatches");
    return counted ? multiply(*counted, count("replicas").value_or(Rational(1))) : std::nullopt;
  };
  std::optional<Rational> each, batch;
  if (!held) {
    if (file.uniformSamples == noSlot)
      return;
    each = count("microbatch_samples");
    batch = each ? std::nullopt : count("batch");
  } else if (held->count) {
    (held->of == HeldSamples::Of::Batch ? batch : each) = Rational(*held->count);
    // Expressions that speak of the other one get what it is worth here.
    const auto all = parts();
    const auto other = !all ? all : each ? multiply(*each, *all) : divide(*batch, *all);
    for (const auto &[name, value] :
         {std::pair("batch", each ? other : batch), std::pair("microbatch_samples", each ? each : other)})
      if (auto found = settings.find(name); found != settings.end() && value)
        evaluator.hold(found->second, Value::of(*value));
  }
  Rational samples = 1;
  if (each) {
    samples = *each;
  } else if (batch) {
    auto all = parts();
    if (auto share = all ? divide(*batch, *all) : std::nullopt)
      samples = *share;
  }
  if (file.uniformSamples != noSlot)
    evaluator.set(file.uniformSamples, Value::of(samples));
}

} // namespace sluice
