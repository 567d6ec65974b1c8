#include "Passes/LossFactors.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace sluice {

namespace {

/// The microbatches of one update.
struct Group {
  int64_t microbatches = 0;
  int64_t size = 0;                  // of all, in samples or tokens
  uint32_t member = noMicrobatch;    // one of them
  uint32_t lastAdded = noMicrobatch; // splits of one microbatch count once
};

constexpr llvm::StringRef tooLarge = "an executor with more than 2^63 samples or tokens in a step";
constexpr llvm::StringRef uneven = "an executor whose stages update over different microbatches of different "
                                   "sizes";

class ScaleSearch {
public:
  ScaleSearch(const Program &program, const CostModel &costs)
      : program(program), costs(costs), replicas(costs.replicas.value_or(1)),
        sizes(costs.loss == "mean over tokens" ? costs.tokens : costs.samples) {}

  LossScales run() {
    using Scaling = TrainingTerms::Scaling;
    if (costs.asynchronous)
      collectUpdates();
    LossScales result;
    const uint32_t last = program.stages - 1;
    const bool onLoss = costs.scaling == Scaling::Loss;
    result.ofMicrobatch.assign(program.microbatches, {1, 1});
    if (onLoss) {
      const std::vector<Group> groups = groupsOf(last);
      for (uint32_t unit = 0; unit < program.microbatches; ++unit)
        result.ofMicrobatch[unit] = factorOf(groups[groupOf(last, unit)], unit);
    }
    if (costs.scaling != Scaling::Program && (!onLoss || costs.asynchronous))
      for (uint32_t stage = 0; stage < program.stages; ++stage)
        result.ofUpdate.push_back(ofUpdates(stage, result.ofMicrobatch));
    if (llvm::all_of(result.ofUpdate, [](const auto &updates) { return updates.empty(); }))
      result.ofUpdate.clear();
    result.problem = problem;
    return result;
  }

private:
  /// Which update of its stage reads each contribution, by its number on its device.
  void collectUpdates() {
    updateOf.assign(static_cast<size_t>(program.stages) * program.microbatches, 0);
    std::vector<std::pair<uint32_t, uint32_t>> made(program.stages, {noDevice, 0}); // device, updates there
    for (uint32_t device = 0; device < program.devices; ++device)
      for (const Op &op : program.opsOf(device)) {
        if (!op.contributes() && op.kind != OpKind::Update)
          continue;
        auto &[of, updates] = made[op.stage];
        if (of != device)
          made[op.stage] = {device, 0};
        if (op.kind == OpKind::Update)
          ++updates;
        else
          updateOf[static_cast<size_t>(op.stage) * program.microbatches + op.microbatch] = updates;
      }
  }
  uint32_t groupOf(uint32_t stage, uint32_t unit) const {
    return updateOf.empty() ? 0 : updateOf[static_cast<size_t>(stage) * program.microbatches + unit];
  }

  int64_t sizeOf(uint32_t unit) const { return sizes.empty() ? 1 : sizes[unit / program.sequenceSplits]; }

  std::vector<Group> groupsOf(uint32_t stage) {
    std::vector<Group> groups;
    for (uint32_t unit = 0; unit < program.microbatches; ++unit) {
      const uint32_t number = groupOf(stage, unit), whole = unit / program.sequenceSplits;
      if (number >= groups.size())
        groups.resize(number + 1);
      Group &group = groups[number];
      if (group.lastAdded == whole)
        continue;
      group.member = unit;
      group.lastAdded = whole;
      ++group.microbatches;
      if (__builtin_add_overflow(group.size, sizeOf(unit), &group.size))
        problem = tooLarge;
    }
    return groups;
  }

  /// What the loss of `unit`, as its microbatch gives it, counts in the loss that its group asks for.
  LossFactor factorOf(const Group &group, uint32_t unit) {
    const int64_t count = sizeOf(unit), own = costs.microbatchLossIsSum ? 1 : count;
    if (costs.loss == "sum")
      return {own, 1};
    if (costs.loss == "mean over microbatches") {
      const int64_t all = times(replicas, group.microbatches);
      return {1, costs.microbatchLossIsSum ? times(all, std::max<int64_t>(count, 1)) : all};
    }
    return {own, std::max<int64_t>(times(replicas, group.size), 1)};
  }
  int64_t times(int64_t a, int64_t b) {
    int64_t product = 1;
    if (__builtin_mul_overflow(a, b, &product))
      problem = tooLarge;
    return product;
  }

  /// What each update of a stage still needs if losses count as `given` says; empty where none needs
  /// anything.
  std::vector<Fraction> ofUpdates(uint32_t stage, const std::vector<LossFactor> &given) {
    const std::vector<Group> groups = groupsOf(stage);
    std::vector<Fraction> result(groups.size(), {0, 1});
    bool isNeeded = false;
    for (uint32_t unit = 0; unit < program.microbatches; ++unit) {
      const LossFactor wanted = factorOf(groups[groupOf(stage, unit)], unit);
      const LossFactor &has = given[unit];
      const auto factor =
          Rational::make(static_cast<__int128>(wanted.numerator) * has.denominator,
                         static_cast<__int128>(wanted.denominator) * std::max<int64_t>(has.numerator, 1));
      if (!factor) {
        problem = tooLarge;
        return {};
      }
      Fraction &found = result[groupOf(stage, unit)];
      const Fraction needed{factor->num, factor->den};
      // Nothing is made of a microbatch without samples, whatever multiplies it.
      if (has.numerator == 0 || wanted.numerator == 0)
        continue;
      if (found.numerator != 0 && found != needed)
        problem = uneven;
      found = needed;
      isNeeded |= found != Fraction{1, 1};
    }
    for (Fraction &each : result)
      if (each.numerator == 0)
        each = {1, 1};
    return isNeeded ? result : std::vector<Fraction>();
  }

  const Program &program;
  const CostModel &costs;
  const int64_t replicas;
  const std::vector<int64_t> &sizes; // per microbatch; empty: one each
  std::vector<uint32_t> updateOf;    // asynchronous: per stage and unit
  llvm::StringRef problem;
};

} // namespace

LossScales lossScales(const Program &program, const CostModel &costs) {
  return ScaleSearch(program, costs).run();
}

std::vector<LossFactor> lossFactors(const Program &program, const CostModel &costs) {
  return lossScales(program, costs).ofMicrobatch;
}

} // namespace sluice
