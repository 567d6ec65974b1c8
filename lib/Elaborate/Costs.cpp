#include "Elaborate/Costs.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <numeric>

namespace sluice {

namespace {

using Rationals = StageTable<Rational>;

class CostEvaluator {
public:
  CostEvaluator(const Program &program, const CheckedSchedule &schedule, Evaluator &evaluator)
      : program(program), schedule(schedule), file(evaluator.checked()), evaluator(evaluator),
        diagnostics(evaluator.diagnostics) {}

  std::optional<CostModel> run() {
    for (const Op &op : program.ops)
      used |= 1u << static_cast<unsigned>(op.kind);
    if (!evaluateTraining())
      return std::nullopt;
    if (file.model) {
      evaluateTimes();
      evaluateSizes();
      if (!failed)
        evaluateTransfers();
      if (!failed)
        chooseUnit();
    } else {
      CostModel ticks = CostModel::ofTicks(program.stages);
      ticks.samples = std::move(costs.samples);
      ticks.batch = costs.batch;
      ticks.replicas = costs.replicas;
      ticks.loss = costs.loss;
      ticks.declaredAt = std::move(costs.declaredAt);
      costs = std::move(ticks);
    }
    evaluateCluster();
    costs.communication = schedule.communication;
    if (failed)
      return std::nullopt;
    return std::move(costs);
  }

private:
  const CheckedSetting *setting(const std::optional<CheckedBlock> &block, const std::string &name) const {
    if (!block)
      return nullptr;
    auto found = block->settings.find(name);
    return found == block->settings.end() ? nullptr : &file.settings[found->second];
  }
  uint32_t indexOf(const CheckedSetting &of) const {
    return static_cast<uint32_t>(&of - file.settings.data());
  }
  bool isUsed(OpKind kind) const { return used & (1u << static_cast<unsigned>(kind)); }

  std::nullopt_t fail() {
    failed = true;
    return std::nullopt;
  }

  /// A value of `of` for these arguments, not negative and of the dimension. Times may be ticks, but not
  /// in one file with seconds.
  std::optional<Rational> value(const CheckedSetting &of, llvm::ArrayRef<Value> arguments, Dimension dimension) {
    size_t lists = evaluator.listMark();
    Value value = evaluator.evalSetting(indexOf(of), arguments, of.span);
    evaluator.releaseLists(lists); // a list has given the value of its stage
    if (!value)
      return fail();
    auto shown = [&] {
      std::string text = of.name;
      for (size_t i = 0; i < arguments.size() && i < of.parameters.size(); ++i)
        text += fmt::format("{}{}", i == 0 ? "(" : ", ", arguments[i].number.num);
      return of.parameters.empty() ? text : text + ")";
    };
    bool ticks = dimension == timeDimension && value.isNumber() && value.dimension.isNone();
    bool zero = value.isNumber() && value.number.num == 0;
    if (!value.isNumber() || (value.dimension != dimension && !ticks && !zero)) {
      diagnostics
          .report(Rule::UnlikeDimensions, of.span,
                  {{"operation", fmt::format("use a {} for {}", value.dimension.str(), shown())},
                   {"values", value.isNumber() ? evaluator.str(value) : "no number"}})
          .fix.message = fmt::format("a {}", dimension.str());
      return fail();
    }
    if (value.number.num < 0) {
      diagnostics.report(Rule::ValueOutOfRange, of.span,
                         {{"what", fmt::format("{} = {} is below 0", shown(), evaluator.str(value))}});
      return fail();
    }
    if (dimension == timeDimension && !zero) {
      Span &first = ticks ? firstTick : firstTime;
      if (!first.isValid())
        first = of.span;
      if (firstTick.isValid() && firstTime.isValid()) {
        Finding &finding = diagnostics.report(
            Rule::UnlikeDimensions, of.span,
            {{"operation", "use ticks and seconds in one file"},
             {"values", fmt::format("{} is {}", shown(), ticks ? value.number.str() : evaluator.str(value))}});
        finding.notes.push_back({ticks ? "seconds are used here" : "ticks are used here",
                                 ticks ? firstTime : firstTick, {}, {}});
        finding.fix.message = "give every time a unit, or none";
        return fail();
      }
    }
    return value.number;
  }

  /// A setting per stage, and per microbatch if it is written so.
  Rationals table(const CheckedSetting &of, Dimension dimension) {
    bool perMicrobatch = of.parameters.size() > 1;
    if (perMicrobatch && of.value != noNode)
      perMicrobatch = reads(file.code, of.value, of.parameters[1]);
    Rationals result;
    std::vector<Rational> row(program.stages);
    checkListLength(of);
    for (uint32_t m = 0; m < (perMicrobatch ? program.microbatches : 1) && !failed; ++m) {
      for (uint32_t s = 0; s < program.stages && !failed; ++s) {
        Value arguments[] = {Value::of(Rational(s)), Value::of(Rational(m))};
        row[s] = value(of, arguments, dimension).value_or(Rational(0));
      }
      result.addMicrobatch(row);
    }
    result.finish();
    costs.declaredAt[of.name] = of.span;
    return perMicrobatch ? result : Rationals(row);
  }

  void checkListLength(const CheckedSetting &of) {
    if (of.value == noNode || file.code.nodes[of.value].op != NodeOp::List ||
        file.code.nodes[of.value].c == program.stages)
      return;
    diagnostics
        .report(Rule::SizesDisagree, of.span,
                {{"covers", fmt::format("{} lists {} stages", of.name, file.code.nodes[of.value].c)},
                 {"declaration", fmt::format("there are {}", program.stages)}})
        .fix.message = "one value per stage";
    failed = true;
  }

  Rationals zeros() const { return Rationals(std::vector<Rational>(program.stages)); }

  Rationals combine(const Rationals &a, const Rationals &b, bool subtracting, llvm::StringRef what) {
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

  void missing(llvm::StringRef op, llvm::StringRef name) {
    diagnostics
        .report(Rule::ValueMissing, file.model->span,
                {{"figure", fmt::format("the time of {}", op.str())}, {"setting", fmt::format("`{}`", name.str())}})
        .fix.message = fmt::format("{} = ...; in the model", name.str());
    failed = true;
  }

  void evaluateTimes() {
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
  }

  void checkWhole() {
    if (setting(file.model, "fused"))
      return;
    for (uint32_t m = 0; m < program.microbatches; ++m)
      for (uint32_t s = 0; s < program.stages; ++s) {
        auto sum = add(backwardInput.at(s, m), backwardWeight.at(s, m));
        if (sum && *sum == backward.at(s, m))
          continue;
        auto shown = [&](const Rational &time) {
          return firstTime.isValid() ? formatTime(time) : time.str();
        };
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

  /// Only the pairs of stages that some overlap of the program runs.
  void evaluateOverlaps() {
    const CheckedSetting *found = setting(file.model, "overlapped");
    if (!found || failed)
      return;
    costs.declaredAt[found->name] = found->span;
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
    }
  }

  std::vector<int64_t> bytesOf(const Rationals &sizes, const CheckedSetting &of) {
    std::vector<int64_t> result;
    for (const Rational &size : sizes.all()) {
      if (!size.isInteger() && !failed) {
        diagnostics
            .report(Rule::NotAnInteger, of.span, {{"what", of.name}, {"value", size.str() + " B"}})
            .fix.message = "floor(...) or ceil(...) of the bytes";
        failed = true;
      }
      result.push_back(size.num);
    }
    return result;
  }

  StageTable<int64_t> sizes(const char *name, const StageTable<int64_t> &otherwise) {
    const CheckedSetting *found = setting(file.model, name);
    if (!found)
      return otherwise;
    Rationals values = table(*found, sizeDimension);
    bytesOf(values, *found);
    return values.mapped([](const Rational &size) { return size.num; });
  }

  void evaluateSizes() {
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
                              {"bound", fmt::format("stages are 0..{}", program.stages - 1)}});
        failed = true;
      }
    };
    mark("random", costs.randomStage);
    mark("batch_norm", costs.batchNormStage);
  }

  struct Link {
    Rational latency, secondsPerByte; // nanoseconds (or ticks); 1 / bandwidth
  };

  std::optional<Link> link(uint32_t from, uint32_t to) {
    const CheckedSetting *latency = setting(file.cluster, "link.latency");
    const CheckedSetting *bandwidth = setting(file.cluster, "link.bandwidth");
    Link result;
    const std::vector<SlotId> &ends = file.cluster ? file.cluster->linkParameters : noSlots;
    if (ends.size() == 2) {
      evaluator.set(ends[0], static_cast<int64_t>(from));
      evaluator.set(ends[1], static_cast<int64_t>(to));
    }
    if (latency) {
      auto time = value(*latency, {}, timeDimension);
      if (!time)
        return std::nullopt;
      result.latency = *time;
    }
    if (bandwidth) {
      auto speed = value(*bandwidth, {}, bandwidthDimension);
      if (!speed)
        return std::nullopt;
      if (speed->num == 0) {
        diagnostics.report(Rule::ValueOutOfRange, bandwidth->span, {{"what", "a bandwidth of 0 moves nothing"}});
        return fail();
      }
      // Bandwidth counts nanoseconds, so a file in ticks cannot use one.
      if (!firstTime.isValid())
        firstTime = bandwidth->span;
      if (firstTick.isValid()) {
        diagnostics
            .report(Rule::UnlikeDimensions, bandwidth->span,
                    {{"operation", "use ticks and seconds in one file"}, {"values", "a bandwidth is per second"}})
            .notes.push_back({"ticks are used here", firstTick, {}, {}});
        return fail();
      }
      result.secondsPerByte = *divide(Rational(1), *speed);
    }
    return result;
  }

  void evaluateTransfers() {
    const CheckedSetting *declared = setting(file.cluster, "link");
    activationTransfer = gradientTransfer = zeros();
    if (!declared)
      return;
    costs.declaredAt["link"] = declared->span;
    std::map<std::pair<uint32_t, uint32_t>, Link> links;
    auto time = [&](uint32_t from, uint32_t to, uint32_t stage, uint32_t m) -> Rational {
      auto found = links.find({from, to});
      if (found == links.end()) {
        auto made = link(from, to);
        if (!made)
          return 0;
        found = links.emplace(std::make_pair(from, to), *made).first;
      }
      auto moving = multiply(found->second.secondsPerByte, Rational(costs.boundary.at(stage, m)));
      auto total = moving ? add(*moving, found->second.latency) : std::nullopt;
      if (total)
        return *total;
      if (!failed)
        diagnostics.report(Rule::ValueOutOfRange, declared->span,
                           {{"what", fmt::format("the transfer time of stage {} overflows", stage)}});
      failed = true;
      return 0;
    };
    // Rows repeat with the rows of placement and boundary, so each pair of those is computed once.
    std::map<std::pair<uint32_t, uint32_t>, std::pair<std::vector<Rational>, std::vector<Rational>>> rows;
    Rationals activations, gradients;
    for (uint32_t m = 0; m < program.microbatches && !failed; ++m) {
      auto [entry, isNew] = rows.try_emplace({program.placement.row(m), costs.boundary.row(m)});
      auto &[activation, gradient] = entry->second;
      if (isNew) {
        activation.assign(program.stages, 0);
        gradient.assign(program.stages, 0);
        for (uint32_t s = 0; s + 1 < program.stages && !failed; ++s) {
          uint32_t here = program.deviceOf(s, m), there = program.deviceOf(s + 1, m);
          if (here == there)
            continue;
          activation[s] = time(here, there, s, m);
          gradient[s + 1] = time(there, here, s, m);
        }
      }
      activations.addMicrobatch(activation);
      gradients.addMicrobatch(gradient);
    }
    activations.finish();
    gradients.finish();
    activationTransfer = std::move(activations);
    gradientTransfer = std::move(gradients);
  }

  /// The largest unit that divides every time, so that times stay small.
  void chooseUnit() {
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
    const Rationals *all[] = {&forward, &recompute, &backward, &backwardInput, &backwardWeight,
                              &activationTransfer, &gradientTransfer};
    for (const Rationals *times : all)
      for (const Rational &time : times->all())
        include(time);
    for (const auto &[stages, time] : overlapped)
      include(time);
    auto unit = Rational::make(numerator == 0 ? 1 : numerator, denominator);
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
      for (const auto &[stages, time] : overlapped)
        costs.overlapped[stages] = convert(time);
    }
    if (fits && unit)
      return;
    diagnostics
        .report(Rule::ValueOutOfRange, file.model->span,
                {{"what", "the times have no common unit that fits 64 bits"}})
        .fix.message = "rounder costs and bandwidths";
    failed = true;
  }

  void evaluateCluster() {
    auto perDevice = [&](const char *name) {
      std::vector<int64_t> result;
      const CheckedSetting *found = setting(file.cluster, name);
      for (uint32_t d = 0; found && d < program.devices && !failed; ++d) {
        auto size = value(*found, Value::of(Rational(d)), sizeDimension);
        if (size)
          result.push_back(size->floor());
      }
      if (found)
        costs.declaredAt[name] = found->span;
      return result;
    };
    costs.memoryLimit = perDevice("memory");
    costs.reserved = perDevice("reserved");
    for (const char *name : {"transport", "channel"})
      if (const CheckedSetting *found = setting(file.cluster, name); found && !found->words.empty()) {
        costs.transport = found->words[0];
        if (found->words.size() > 1)
          costs.transport += "(" + found->words[1] + ")";
      }
  }

  std::optional<int64_t> count(const char *name) {
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

  bool evaluateTraining() {
    if (!file.training)
      return true;
    costs.replicas = count("replicas");
    costs.batch = count("batch");
    auto each = count("microbatch_samples");
    if (const CheckedSetting *loss = setting(file.training, "loss"); loss && !loss->words.empty())
      costs.loss = loss->words[0];
    if (failed)
      return false;
    if (costs.batch && each) {
      diagnostics
          .report(Rule::SizesDisagree, costs.declaredAt["microbatch_samples"],
                  {{"covers", "microbatch_samples is held when M changes"}, {"declaration", "and so is batch"}})
          .fix.message = "give one of the two";
      return false;
    }
    setUniformSamples(evaluator, program.microbatches);
    const CheckedSetting &samples = *setting(file.training, "samples");
    bool written = file.uniformSamples == noSlot;
    if (!written && !costs.batch && !each)
      return true;
    int64_t sum = 0;
    for (uint32_t m = 0; m < program.microbatches; ++m) {
      Value value = evaluator.evalSetting(indexOf(samples), Value::of(Rational(m)), samples.span);
      if (!value)
        return fail(), false;
      if (!written && !value.number.isInteger())
        return batchMismatch(value.number), false;
      if (!value.isPlainInteger() || value.number.num < 0) {
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

  void batchMismatch(const std::optional<Rational> &fraction) {
    int64_t held = 0, replicas = costs.replicas.value_or(1), batch = *costs.batch;
    if (fraction)
      held = fraction->floor() * program.microbatches * replicas;
    else
      held = std::accumulate(costs.samples.begin(), costs.samples.end(), int64_t(0)) * replicas;
    diagnostics
        .report(Rule::BatchMismatch, costs.declaredAt["batch"],
                {{"microbatches", fmt::format("{} microbatches{}{}", program.microbatches,
                                              replicas > 1 ? fmt::format(" x {} replicas", replicas) : "",
                                              fraction ? " of equal size" : "")},
                 {"samples", std::to_string(held)},
                 {"batch", std::to_string(batch)}})
        .fix.message = held == 0 ? "fewer microbatches, or samples(m)"
                                 : fmt::format("batch = {}, or samples(m) that add up to it", held);
    failed = true;
  }

  const Program &program;
  const CheckedSchedule &schedule;
  const CheckedFile &file;
  Evaluator &evaluator;
  Diagnostics &diagnostics;
  const std::vector<SlotId> noSlots;
  CostModel costs;
  bool failed = false;
  unsigned used = 0; // a bit per kind of op
  Span firstTick, firstTime;
  Rationals forward, recompute, backward, backwardInput, backwardWeight, activationTransfer, gradientTransfer;
  std::map<std::pair<uint32_t, uint32_t>, Rational> overlapped;
};

} // namespace

void setUniformSamples(Evaluator &evaluator, std::optional<uint32_t> microbatches) {
  const CheckedFile &file = evaluator.checked();
  if (file.uniformSamples == noSlot)
    return;
  auto count = [&](const char *name) -> std::optional<Rational> {
    auto found = file.training->settings.find(name);
    if (found == file.training->settings.end())
      return std::nullopt;
    Value value = evaluator.evalSetting(found->second, {}, file.settings[found->second].span);
    if (!value.isPlainInteger() || value.number.num < 1)
      return std::nullopt; // reported where it is used
    return value.number;
  };
  Rational samples = 1;
  if (auto each = count("microbatch_samples")) {
    samples = *each;
  } else if (auto batch = count("batch")) {
    auto parts = microbatches ? std::optional(Rational(*microbatches)) : count("microbatches");
    auto all = parts ? multiply(*parts, count("replicas").value_or(Rational(1))) : std::nullopt;
    if (auto each = all ? divide(*batch, *all) : std::nullopt)
      samples = *each;
  }
  evaluator.set(file.uniformSamples, Value::of(samples));
}

std::optional<CostModel> evaluateCosts(const Program &program, const CheckedSchedule &schedule,
                                       Evaluator &evaluator) {
  return CostEvaluator(program, schedule, evaluator).run();
}

} // namespace sluice
