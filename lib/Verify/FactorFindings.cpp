// 507 wrong-factor in words: the factor with what it is the product of, and the one scale that mends it.
#include "Verify/Factors.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace sluice {

using Scaling = TrainingTerms::Scaling;
using Factor = std::optional<Rational>;

/// `loss, line 5`: a setting with its place, seen from `from`.
static std::string settingText(const VerifyContext &context, const char *setting, const std::string &words,
                               Span from) {
  auto declared = context.costs.declaredAt.find(setting);
  std::string line =
      declared == context.costs.declaredAt.end() ? "" : lineText(context, declared->second, from);
  return line.empty() ? words : words + ", " + line;
}

/// Where an op that scales stands: its line, or its name where none is known.
static std::string placeText(const VerifyContext &context, OpId op, Span from) {
  std::string line = lineText(context, context.program.spanOf(op), from);
  return line.empty() ? opText(context, op) : line;
}

namespace {
struct Part {
  Rational value;
  std::string where;
  bool operator==(const Part &) const = default;
};
} // namespace

/// Parts that are 1 left out, long runs of one part counted.
static std::string joined(llvm::ArrayRef<Part> parts) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < parts.size();) {
    if (parts[i].value == Rational(1)) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < parts.size() && parts[end] == parts[i])
      ++end;
    const std::string text = fmt::format("{} ({})", parts[i].value.str(), parts[i].where);
    if (end - i > 3)
      texts.push_back(fmt::format("{} ({}, {} times)", parts[i].value.str(), parts[i].where, end - i));
    else
      texts.insert(texts.end(), end - i, text);
    i = end;
  }
  return texts.empty() ? "nothing scales it" : llvm::join(texts, " · ");
}

std::string FactorCheck::productOf(const FactorFault &fault) {
  const CostModel &costs = context.costs;
  const Span from = program.spanOf(fault.op);
  std::vector<Part> parts;
  auto suffix = [&](OpId op) {
    if (op != noOp && program.ops[op].hasFactor())
      parts.push_back({program.factorOf(op), placeText(context, op, from)});
  };
  groupUpdates(fault.stage);
  const uint32_t whole = fault.unit / program.sequenceSplits;
  const Factor own = loss.own(whole);
  const Factor base =
      isRelative() && groupOf[fault.unit] != noUpdate ? loss.target(groups[groupOf[fault.unit]], whole) : own;
  if (costs.scaling == Scaling::Loss) {
    parts.push_back({base.value_or(1), settingText(context, "loss", "loss", from)});
  } else {
    parts.push_back({own.value_or(1), settingText(context, "microbatch_loss", "mean of its own", from)});
    if (costs.scaling != Scaling::Program)
      if (Factor rest = base && own ? divide(*base, *own) : std::nullopt)
        parts.push_back(
            {*rest, settingText(context, "scale",
                                costs.scaling == Scaling::Reduced ? "scale = reduced" : "scale = accumulator",
                                from)});
  }
  for (uint32_t stage = program.stages; stage-- > fault.stage + 1;)
    suffix(context.index.backward(stage, fault.unit));
  if (fault.kind == FactorFault::Paths)
    return joined(parts);
  suffix(fault.op);
  for (OpId op : effectiveScales(fault))
    suffix(op);
  if (const Life *life = lifeOf(fault.device, fault.accumulator); life && costs.reductionIsMean)
    if (auto update = updateOf(*life, fault.op); update && life->updates[*update].reduction != noOp)
      parts.push_back({divide(1, Rational(costs.replicas.value_or(1))).value_or(1),
                       settingText(context, "reduction", "reduction = mean", from)});
  return joined(parts);
}

static bool isAlike(const FactorFault &a, const FactorFault &b) {
  return a.kind == b.kind && a.factor == b.factor && a.wanted == b.wanted && a.otherFactor == b.otherFactor;
}

/// Of the faults like `first` among `faults` its microbatches, and the stages where these are all of them.
struct Extent {
  std::vector<uint32_t> stages, units;
};
static Extent extentOf(llvm::ArrayRef<const FactorFault *> faults, const FactorFault &first) {
  std::map<uint32_t, std::vector<uint32_t>> unitsOf; // by stage
  for (const FactorFault *fault : faults)
    if (isAlike(*fault, first))
      unitsOf[fault->stage].push_back(fault->unit);
  for (auto &[stage, units] : unitsOf) {
    llvm::sort(units);
    units.erase(std::unique(units.begin(), units.end()), units.end());
  }
  Extent extent{{}, unitsOf[first.stage]};
  for (const auto &[stage, units] : unitsOf)
    if (units == extent.units)
      extent.stages.push_back(stage);
  return extent;
}

namespace {

/// Looks for one scale that mends all faults of a finding, and tries it.
class Mending {
public:
  Mending(const VerifyContext &context, FactorCheck &check, llvm::ArrayRef<FactorFault> all,
          llvm::ArrayRef<const FactorFault *> here)
      : context(context), program(context.program), check(check), all(all), here(here), first(*here.front()) {
  }
  std::string words();

private:
  bool mends(const FactorEdit &edit);
  std::optional<Rational> commonRatio(const FactorFault &of) const;
  std::string onLoss();
  std::string onlyWhereLossIsMade();
  std::string movedBeforeCopy();
  std::string onCopies();
  std::string copyWords(const Rational &ratio) const;

  const VerifyContext &context;
  const Program &program;
  FactorCheck &check;
  llvm::ArrayRef<FactorFault> all;
  llvm::ArrayRef<const FactorFault *> here;
  const FactorFault &first;
};

} // namespace

/// The faults here are gone and no new one has come.
bool Mending::mends(const FactorEdit &edit) {
  const std::vector<FactorFault> left = check.run(edit);
  const bool isGone = llvm::none_of(left, [&](const FactorFault &fault) {
    return llvm::any_of(here, [&](const FactorFault *old) {
      return old->device == fault.device && old->stage == fault.stage;
    });
  });
  return isGone && left.size() + here.size() <= all.size();
}

/// What the factors of a copy of a stage lack, if it is the same for all its faults.
std::optional<Rational> Mending::commonRatio(const FactorFault &of) const {
  std::optional<Rational> ratio;
  for (const FactorFault &fault : all) {
    if (fault.stage != of.stage || fault.device != of.device)
      continue;
    const std::optional<Rational> lacking =
        fault.kind == FactorFault::Wrong ? divide(fault.wanted, fault.factor) : std::nullopt;
    if (!lacking || (ratio && *ratio != *lacking))
      return std::nullopt;
    ratio = lacking;
  }
  return ratio;
}

/// Nothing is wrong but a factor on the loss itself.
std::string Mending::onLoss() {
  if (context.costs.scaling != Scaling::Program)
    return "";
  const std::optional<Rational> ratio = commonRatio(first);
  FactorEdit edit;
  if (!ratio)
    return "";
  edit.ofLoss = *ratio;
  if (!mends(edit))
    return "";
  const uint32_t last = program.stages - 1;
  const OpId backward = context.index.backward(last, first.unit);
  if (backward == noOp)
    return "";
  const bool isSplit = program.ops[backward].kind == OpKind::BackwardInput;
  const Rational present = program.ops[backward].hasFactor() ? program.factorOf(backward) : Rational(1);
  const std::optional<Rational> scale = multiply(present, *ratio);
  if (!scale || isSplit != (context.index.weightHalf(last, first.unit) != noOp))
    return "";
  return fmt::format("{}(..) scale {}{} on stage {}, where the loss is made, and nowhere else",
                     isSplit ? "backward_input" : "backward", scale->str(),
                     isSplit ? fmt::format(" and backward_weight(..) scale {}", scale->str()) : "", last);
}

std::string Mending::onlyWhereLossIsMade() {
  const uint32_t last = program.stages - 1;
  OpId scaled = noOp;
  for (uint32_t stage = first.stage; stage < last && scaled == noOp; ++stage)
    if (OpId op = context.index.backward(stage, first.unit); op != noOp && program.ops[op].hasFactor())
      scaled = op;
  FactorEdit edit;
  edit.onlyWhereLossIsMade = true;
  if (scaled == noOp || !mends(edit))
    return "";
  const OpId made = context.index.backward(last, first.unit);
  const Rational scale = made != noOp && program.ops[made].hasFactor() ? program.factorOf(made) : Rational(1);
  return fmt::format("`scale {}` on the backwards of stage {} alone, where the loss is made", scale.str(),
                     last);
}

std::string Mending::movedBeforeCopy() {
  const std::vector<OpId> unheard = check.ineffectiveScales(first);
  FactorEdit edit;
  edit.beforeCopy = true;
  if (unheard.empty() || !mends(edit))
    return "";
  return fmt::format("move {} in front of the reduction", str(program, unheard.front()));
}

/// How to bring `ratio` to what the copy of the first fault accumulates.
std::string Mending::copyWords(const Rational &ratio) const {
  const Op &op = program.ops[first.op];
  for (OpId scale : check.effectiveScales(first)) {
    const Rational &present = program.factorOf(scale);
    std::optional<Rational> changed = multiply(present, ratio);
    if (!changed)
      continue;
    const std::string where = atLine(context, scale, first.op);
    return *changed == Rational(1) ? fmt::format("delete {}{}", str(program, scale), where)
                                   : fmt::format("scale({}, {}) instead of {}{}", first.stage, changed->str(),
                                                 str(program, scale), where);
  }
  if (op.kind == OpKind::BackwardWeight) {
    const Rational present = op.hasFactor() ? program.factorOf(first.op) : Rational(1);
    if (std::optional<Rational> changed = multiply(present, ratio))
      return *changed == Rational(1) ? fmt::format("{} without `scale`", opText(context, first.op))
                                     : fmt::format("{} scale {}", opText(context, first.op), changed->str());
  }
  return fmt::format("scale({}, {}) behind the last contribution{}", first.accumulator, ratio.str(),
                     context.costs.isCopied ? ", in front of the reduction" : "");
}

std::string Mending::onCopies() {
  FactorEdit edit;
  for (const FactorFault *fault : here) {
    const uint64_t copy = VerifyContext::copy(fault->device, fault->stage);
    if (edit.ofCopy.contains(copy))
      continue;
    const std::optional<Rational> ratio = commonRatio(*fault);
    if (!ratio)
      return "";
    edit.ofCopy[copy] = *ratio;
  }
  if (!mends(edit))
    return "";
  return copyWords(edit.ofCopy[VerifyContext::copy(first.device, first.stage)]) +
         (context.copies.count(first.stage) > 1 ? fmt::format(", on device {}", first.device) : "");
}

std::string Mending::words() {
  for (auto attempt :
       {&Mending::movedBeforeCopy, &Mending::onLoss, &Mending::onlyWhereLossIsMade, &Mending::onCopies})
    if (std::string found = (this->*attempt)(); !found.empty())
      return found + (context.costs.reductionIsMean && context.costs.scaling != Scaling::Program
                          ? ", or `reduction = sum`"
                          : "");
  return fmt::format("no single scale mends it: bring every microbatch to {} where its loss is made",
                     first.wanted.str());
}

/// `scale = accumulator` and `reduced` where the microbatches of one accumulator want unlike factors.
void reportUnevenScale(VerifyContext &context, const FactorFault &fault) {
  const LossTerms loss(context.program, context.costs);
  auto own = [&](uint32_t microbatch) { return loss.own(microbatch).value_or(0).str(); };
  auto declared = context.costs.declaredAt.find("scale");
  const Span span = declared == context.costs.declaredAt.end() ? context.program.span : declared->second;
  const int64_t large = loss.sizeOf(fault.unit), small = loss.sizeOf(fault.other);
  const bool isSum = context.costs.microbatchLossIsSum;
  Finding &finding = context.diagnostics.report(
      Rule::WrongFactor, span,
      {{"stages", "all stages"},
       {"microbatches", listed("microbatch", "microbatches", {fault.unit, fault.other})},
       {"count", "count"},
       {"factor", isSum ? "1" : fmt::format("{} and {}", own(fault.unit), own(fault.other))},
       {"loss", context.costs.loss},
       {"wanted", isSum ? "each its own factor" : "one factor"},
       {"product",
        fmt::format("no single factor serves microbatches of {} and {} {}", large, small, loss.units())}});
  finding.fix.message =
      isSum ? "microbatch_loss = mean;, or scale = loss;" : "microbatch_loss = sum;, or scale = loss;";
  context.hasErrors = true;
}

static void reportOverflow(VerifyContext &context, FactorCheck &check, const FactorFault &fault,
                           const FaultGroup &group) {
  FaultGroup beyond = group;
  for (Fault &member : beyond)
    member.rule = Rule::ValueOutOfRange;
  Finding &finding = report(context, beyond,
                            {{"what", fmt::format("the factor of {} leaves 64 bits: {}",
                                                  opText(context, fault.op), check.productOf(fault))}});
  noteOthers(context, beyond, false, finding);
  finding.fix.message = "scale once, where the loss is made";
}

static std::string pathsText(FactorCheck &check, const FactorFault &fault) {
  return fmt::format("{} over the edge {} -> {} ({}), {} over the edge {} -> {}", fault.factor.str(),
                     fault.stage, fault.stage + 1, check.productOf(fault), fault.otherFactor.str(),
                     fault.stage, fault.other);
}

void reportWrongFactor(VerifyContext &context, FactorCheck &check, llvm::ArrayRef<FactorFault> all,
                       const FaultGroup &group) {
  llvm::DenseSet<uint64_t> copies;
  for (const Fault &fault : group)
    copies.insert(VerifyContext::copy(fault.device, fault.stage));
  std::vector<const FactorFault *> here;
  for (const FactorFault &fault : all)
    if (copies.contains(VerifyContext::copy(fault.device, fault.stage)))
      here.push_back(&fault);
  // The first copy in front: it gives the finding its words. One whose factor is known if there is any.
  const Fault &leader = group.front();
  llvm::stable_sort(here, [&](const FactorFault *a, const FactorFault *b) {
    auto rank = [&](const FactorFault *fault) {
      return std::make_tuple(fault->kind == FactorFault::Overflow, fault->op != leader.op, fault->device,
                             fault->op);
    };
    return rank(a) < rank(b);
  });
  const FactorFault &first = *here.front();
  if (first.kind == FactorFault::Overflow)
    return reportOverflow(context, check, first, group);
  const Extent extent = extentOf(here, first);
  const bool isPaths = first.kind == FactorFault::Paths;
  Finding &finding =
      report(context, group,
             {{"stages", listed("stage", "stages", extent.stages)},
              {"microbatches", listed("microbatch", "microbatches", extent.units)},
              {"count", extent.units.size() == 1 ? "counts" : "count"},
              {"factor", isPaths ? fmt::format("{} or {}", first.factor.str(), first.otherFactor.str())
                                 : first.factor.str()},
              {"loss", context.costs.loss},
              {"wanted", first.wanted.str()},
              {"product", isPaths ? pathsText(check, first) : check.productOf(first)}});
  if (first.accumulator != first.stage)
    finding.notes.push_back(
        {fmt::format("in the accumulator of stage {}, which holds the tied weight", first.accumulator),
         {},
         {},
         ""});
  const std::vector<OpId> unheard = check.ineffectiveScales(first);
  if (!unheard.empty())
    noteOp(context, finding, unheard.front(),
           str(context.program, unheard.front()) + " does not reach the copy that the reduction has made");
  constexpr size_t mostNotes = 3;
  std::vector<const FactorFault *> told = {&first};
  for (const FactorFault *fault : here) {
    if (llvm::any_of(told, [&](const FactorFault *other) { return isAlike(*other, *fault); }))
      continue;
    told.push_back(fault);
    if (told.size() > mostNotes + 1)
      continue;
    const Extent others = extentOf(here, *fault);
    finding.notes.push_back(
        {fmt::format("{}: {} {} {}: {}", listed("stage", "stages", others.stages),
                     listed("microbatch", "microbatches", others.units),
                     others.units.size() == 1 ? "counts" : "count",
                     fault->kind == FactorFault::Overflow ? "a factor beyond 64 bits" : fault->factor.str(),
                     check.productOf(*fault)),
         {},
         fault->device,
         ""});
  }
  if (told.size() > mostNotes + 1)
    finding.notes.push_back(
        {fmt::format("{} more", counted(told.size() - mostNotes - 1, "factor", "factors")), {}, {}, ""});
  finding.fix.message = isPaths
                            ? fmt::format("one factor on both edges: the same `scale` on stages {} and {}",
                                          first.stage + 1, first.other)
                            : Mending(context, check, all, here).words();
}

} // namespace sluice
