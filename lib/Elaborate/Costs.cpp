#include "Elaborate/Costs.h"

#include "Elaborate/CostEvaluator.h"

#include <fmt/format.h>

namespace sluice {

std::optional<CostModel> CostEvaluator::run() {
  for (const Op &op : program.ops) {
    used |= 1u << static_cast<unsigned>(op.kind);
    hasOverlaps |= op.has(OverlapFirst);
  }
  if (file.splits != noSlot)
    evaluator.set(file.splits, static_cast<int64_t>(program.sequenceSplits));
  if (!evaluateTraining())
    return std::nullopt;
  if (file.model) {
    if (const CheckedSetting *profile = setting(file.model, "cost"))
      costs.declaredAt["cost"] = profile->span;
    checkLayers();
    if (!failed)
      evaluateTimes();
    for (auto step :
         {&CostEvaluator::evaluateSizes, &CostEvaluator::evaluateTransfers, &CostEvaluator::evaluateUpdates,
          &CostEvaluator::evaluateReductions, &CostEvaluator::evaluateGathers, &CostEvaluator::evaluateHost,
          &CostEvaluator::chooseUnit})
      if (!failed)
        (this->*step)();
    if (!failed && hasOverlaps)
      checkOverlapSums();
  } else {
    static_cast<ModelCosts &>(costs) = CostModel::ofTicks(program.stages);
  }
  evaluateCluster();
  costs.communication = program.isExplicit ? "explicit" : schedule.communication;
  checkBlocking();
  if (failed)
    return std::nullopt;
  return std::move(costs);
}

const CheckedSetting *CostEvaluator::setting(const std::optional<CheckedBlock> &block,
                                             const std::string &name) const {
  if (!block)
    return nullptr;
  auto found = block->settings.find(name);
  return found == block->settings.end() ? nullptr : &file.settings[found->second];
}

std::optional<Rational> CostEvaluator::value(const CheckedSetting &of, llvm::ArrayRef<Value> arguments,
                                             Dimension dimension) {
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
                {{"operation", fmt::format("use a {} for {}", kindOf(value), shown())},
                 {"values", value.kind == Value::Kind::List ? "a list" : evaluator.str(value)}})
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
      finding.notes.push_back(
          {ticks ? "seconds are used here" : "ticks are used here", ticks ? firstTime : firstTick, {}, {}});
      finding.fix.message = "give every time a unit, or none";
      return fail();
    }
  }
  return value.number;
}

CostEvaluator::Rationals CostEvaluator::table(const CheckedSetting &of, Dimension dimension) {
  bool perMicrobatch = of.parameters.size() > 1;
  if (perMicrobatch && of.value != noNode)
    perMicrobatch = reads(file.code, of.value, of.parameters[1]);
  if (perMicrobatch && of.isMeasured)
    return measuredTable(of);
  Rationals result;
  std::vector<Rational> row(program.stages);
  checkListLength(of, program.stages, "stages");
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

void CostEvaluator::checkListLength(const CheckedSetting &of, uint32_t count, llvm::StringRef what) {
  if (of.value == noNode || file.code.nodes[of.value].op != NodeOp::List ||
      file.code.nodes[of.value].c == count)
    return;
  diagnostics
      .report(Rule::SizesDisagree, of.span,
              {{"covers", fmt::format("{} lists {} {}", of.name, file.code.nodes[of.value].c, what.str())},
               {"declaration", fmt::format("there are {}", count)}})
      .fix.message = "one value each";
  failed = true;
}

void CostEvaluator::missing(llvm::StringRef op, llvm::StringRef name) {
  diagnostics
      .report(
          Rule::ValueMissing, file.model->span,
          {{"figure", fmt::format("the time of {}", op.str())}, {"setting", fmt::format("`{}`", name.str())}})
      .fix.message = fmt::format("{} = ...; in the model", name.str());
  failed = true;
}

void CostEvaluator::evaluateCluster() {
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
  evaluateOccupation();
  evaluateChannels();
}

llvm::StringRef CostEvaluator::wordOf(const char *name) {
  const CheckedSetting *found = setting(file.cluster, name);
  if (!found || found->words.empty())
    return "";
  costs.declaredAt[name] = found->span;
  return found->words[0];
}

/// What goes on beside computation and what stops it.
void CostEvaluator::evaluateOccupation() {
  costs.transfersBlock = wordOf("transfers") == "blocking";
  costs.collectivesOverlap = wordOf("collectives") == "overlapped";
  if (file.cluster && file.cluster->host)
    costs.declaredAt["host"] = file.cluster->host->span;
  if (file.cluster && file.cluster->collective)
    costs.declaredAt["collective"] = file.cluster->collective->span;
}

/// `transport` stands for all of what blocks; what is written beside it holds in its place.
void CostEvaluator::evaluateChannels() {
  for (const char *name : {"transport", "channel"}) {
    if (wordOf(name).empty())
      continue;
    costs.transport = wordOf(name);
    for (NodeId depth : setting(file.cluster, name)->operands)
      costs.transport += fmt::format("({})", eagerDepth(depth).value_or(0));
    costs.channels = channelRulesNamed(costs.transport, costs.channels).value_or(costs.channels);
    costs.hasChannelModel = true;
  }
  if (auto key = channelKeyNamed(wordOf("channel_key")))
    costs.channels.key = *key;
  costs.channels.deviceService |= wordOf("service") == "device";
  costs.saysGroups = !wordOf("groups").empty();
  costs.channels.atomicGroups = wordOf("groups") == "atomic";
  costs.saysProgress = !wordOf("progress").empty();
  costs.channels.progressInWait = wordOf("progress") == "in_wait";
  costs.saysConnect = !wordOf("connect").empty();
  costs.channels.connectOnFirstUse = wordOf("connect") == "first_use";
}

/// Messages that an eager channel holds.
std::optional<int64_t> CostEvaluator::eagerDepth(NodeId node) {
  auto depth = evaluator.evalInteger(node, "the depth");
  if (!depth)
    return fail();
  if (*depth >= 0 && *depth < INT32_MAX)
    return depth;
  diagnostics.report(Rule::ValueOutOfRange, file.code.nodes[node].span,
                     {{"what", fmt::format("the depth {} is {}", *depth,
                                           *depth < 0 ? "below 0" : "above 2147483646: write unbounded")}});
  return fail();
}

std::optional<CostModel> evaluateCosts(const Program &program, const CheckedSchedule &schedule,
                                       Evaluator &evaluator, const std::optional<HeldSamples> &held) {
  return CostEvaluator(program, schedule, evaluator, held).run();
}

} // namespace sluice
