// Rule family 9xx: what `expect` says against what the timeline gives.
#include "Driver/Posted.h"
#include "Events/Completion.h"
#include "Sema/Settings.h"
#include "Support/Words.h"
#include "Timeline/Balance.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>
#include <set>
#include <tuple>

namespace sluice {

namespace {

class ExpectationChecker {
public:
  ExpectationChecker(Instance &instance, Evaluator &evaluator, const SourceManager &sources)
      : instance(instance), evaluator(evaluator), sources(sources), code(evaluator.checked().code),
        diagnostics(evaluator.diagnostics), balanced(balancedCosts(instance.costs)) {}

  void check(const CheckedExpected &item, const CheckedExpect &block) {
    if (!item.models.empty())
      return checkDeadlockFree(item);
    if (!instance.figures)
      return;
    std::vector<Rational> values;
    if (item.range ? checkRange(item, values) : !isAsked(item) || compare(item, 0, values))
      state(item, block, std::move(values));
  }

  Value figure(llvm::StringRef name, llvm::ArrayRef<Value> arguments, Span span) {
    const Figures &figures = *instance.figures;
    shown = name.str();
    if (!arguments.empty())
      shown += fmt::format("({})", evaluator.str(arguments[0]));
    if (llvm::is_contained(costNames(), name))
      return cost(name, arguments, span);
    const FigureInfo *info = findFigure(name);
    if (!info)
      return unknownFigure(name, span);
    if (name == "span_bubble_rate")
      checkBarrier(name, span);
    if (arguments.size() > (info->arity == FigureArity::Schedule ? 0u : 1u)) {
      diagnostics.report(Rule::WrongArguments, span,
                         {{"what", fmt::format("{} takes {}, found {}", name.str(),
                                               info->arity == FigureArity::Schedule ? "no index"
                                               : info->arity == FigureArity::Device ? "a device or nothing"
                                                                                    : "a stage or nothing",
                                               arguments.size())}});
      return {};
    }
    std::optional<uint32_t> index;
    if (!arguments.empty()) {
      bool device = info->arity == FigureArity::Device;
      uint32_t count = device ? instance.program.devices : instance.program.stages;
      if (!arguments[0].isPlainInteger() || arguments[0].number.num < 0 || arguments[0].number.num >= count) {
        diagnostics.report(
            Rule::IndexOutOfRange, span,
            {{"op", shown},
             {"what", device ? "device" : "stage"},
             {"index", evaluator.str(arguments[0])},
             {"bound", fmt::format("{}s are 0 to {}", device ? "device" : "stage", count - 1)}});
        return {};
      }
      index = static_cast<uint32_t>(arguments[0].number.num);
    }
    if (name == "sensitivity" && !figures.sensitivity) // takes many timelines, so only where it is asked for
      addDetails(*instance.figures, instance.timed(), instance.timedIndex(), instance.costs,
                 *instance.timeline, {.sensitivity = true});
    if (auto value = figures.valueInBaseUnits(name, index)) {
      bool ticks = instance.costs.ticks;
      Dimension dimension = info->unit == FigureUnit::Size             ? sizeDimension
                            : info->unit == FigureUnit::Time && !ticks ? timeDimension
                            : info->unit == FigureUnit::Rate && !ticks ? rateDimension
                                                                       : noDimension;
      return Value::of(*value, dimension);
    }
    llvm::StringRef setting = figures.missingSetting(name);
    diagnostics
        .report(Rule::ValueMissing, span,
                {{"figure", name.str()}, {"setting", setting.empty() ? "ops that take time" : setting.str()}})
        .fix.message = "declare it";
    return {};
  }

private:
  /// Whether the condition behind `when` holds.
  bool isAsked(const CheckedExpected &item) {
    return item.condition == noNode || evaluator.evalBoolean(item.condition, "the condition").value_or(false);
  }

  /// Checks the item for every value of its range; true if all hold.
  bool checkRange(const CheckedExpected &item, std::vector<Rational> &values) {
    auto bounds = evaluator.evalRange(*item.range);
    std::vector<uint32_t> alsoFailing;
    std::optional<size_t> reported;
    for (int64_t i = bounds ? bounds->first : 0; bounds && i < bounds->last;) {
      evaluator.set(item.variable, i);
      if (!evaluator.spend(item.span))
        return false;
      const size_t before = diagnostics.findings().size();
      const bool isAsked = this->isAsked(item);
      if (diagnostics.findings().size() != before)
        return false; // the condition has no value, and would have none for the others
      if (isAsked && !reported) {
        if (!compare(item, i, values)) {
          if (diagnostics.findings().size() == before ||
              diagnostics.findings().back().rule != Rule::ExpectationFailed)
            return false; // likewise the comparison
          reported = diagnostics.findings().size() - 1;
        }
      } else if (isAsked) {
        if (auto holds = evaluator.evalBoolean(item.comparison, "an expectation"); holds && !*holds)
          alsoFailing.push_back(static_cast<uint32_t>(i));
      }
      if (__builtin_add_overflow(i, bounds->step, &i))
        break;
    }
    if (!alsoFailing.empty())
      diagnostics.findings()[*reported].notes.push_back(
          {fmt::format("the same holds for {} = {}", code.slotNames[item.variable], numberList(alsoFailing)),
           {},
           {},
           {}});
    return bounds && !reported;
  }

  /// The figure on the left of an equation; null if the item is none.
  const FigureInfo *equated(const CheckedExpected &item) const {
    const Node &node = code.nodes[item.comparison];
    if (node.op != NodeOp::Equal || code.nodes[node.a].op != NodeOp::Figure)
      return nullptr;
    return findFigure(code.texts[code.nodes[node.a].a]);
  }

  /// A number alone is a value looked up, not a form.
  bool isConstant(NodeId id) const {
    const Node &node = code.nodes[id];
    switch (node.op) {
    case NodeOp::Constant:
      return true;
    case NodeOp::Negate:
      return isConstant(node.a);
    case NodeOp::Add:
    case NodeOp::Subtract:
    case NodeOp::Multiply:
    case NodeOp::Divide:
      return isConstant(node.a) && isConstant(node.b);
    default:
      return false;
    }
  }

  /// An equation that holds is a closed form.
  void state(const CheckedExpected &item, const CheckedExpect &block, std::vector<Rational> values) {
    const FigureInfo *figure = equated(item);
    if (!figure || values.empty() || isConstant(code.nodes[item.comparison].b))
      return;
    Location at = sources.locate(item.span.begin);
    instance.figures->closed.stated.push_back({figure->name.str(), formulaText(item), std::move(values),
                                               evaluator.checked().schedules[block.schedule].name,
                                               at.file.str(), at.line, block.isImported});
  }

  /// As written, in one line and without its condition.
  std::string formulaText(const CheckedExpected &item) const {
    std::string text = sourceText(code.nodes[item.comparison].span);
    if (item.range)
      text += fmt::format(" for {} in {}..{}", code.slotNames[item.variable],
                          sourceText(code.nodes[item.range->first].span),
                          sourceText(code.nodes[item.range->last].span));
    if (item.range && item.range->step != noNode)
      text += " by " + sourceText(code.nodes[item.range->step].span);
    llvm::SmallVector<llvm::StringRef> words;
    llvm::SplitString(text, words, " \t\r\n");
    return llvm::join(words, " ");
  }

  /// `balanced`, `tightened`, or what an op costs on every stage.
  Value cost(llvm::StringRef name, llvm::ArrayRef<Value> arguments, Span span) {
    if (!arguments.empty()) {
      diagnostics.report(
          Rule::WrongArguments, span,
          {{"what", fmt::format("{} takes no index: it is the same for every stage", name.str())}});
      return {};
    }
    if (name == "balanced")
      return Value::boolean(balanced.has_value());
    if (name == "tightened")
      return Value::boolean(!instance.tightened.empty());
    if (!balanced || (name.starts_with("backward_") && !balanced->hasHalves)) {
      Finding &finding = diagnostics.report(
          Rule::ValueMissing, span,
          {{"figure", fmt::format("`{}` of a stage", name.str())},
           {"setting", balanced ? "the halves of a backward" : "one cost for all stages"}});
      if (!balanced)
        finding.notes.push_back(
            {"stages or microbatches differ, or transfers or overlaps take a time of their own", {}, {}, {}});
      finding.fix.message =
          balanced ? "backward_input and backward_weight in the model" : "when balanced && ...";
      return {};
    }
    const int64_t units = name == "forward"          ? balanced->forward
                          : name == "backward"       ? balanced->backward
                          : name == "backward_input" ? balanced->backwardInput
                                                     : balanced->backwardWeight;
    auto time = inBaseUnits(instance.costs, units);
    if (!time)
      return {}; // it came from there
    return Value::of(*time, instance.costs.ticks ? noDimension : timeDimension);
  }

  /// 904: a figure of a device's own span tells what a step loses only if no device waits for the others
  /// between two steps; a call that all of them make is such a wait.
  void checkBarrier(llvm::StringRef figure, Span span) {
    const bool isNew = !barrierChecked.contains(span.begin);
    barrierChecked.insert(span.begin);
    const OpId op = isNew ? findBarrier() : noOp;
    if (op == noOp)
      return;
    const Program &program = instance.program;
    const std::string barrier = str(program, op);
    Finding &finding =
        diagnostics.report(Rule::SpanWithBarrier, span, {{"figure", figure.str()}, {"op", barrier}});
    finding.notes.push_back(
        {"all devices wait for each other here", program.spanOf(op), program.deviceOf(op), barrier});
    finding.fix.message = "expect idle_fraction";
  }

  /// The first call that all devices make; each of them makes it, so the first device is all to look at.
  OpId findBarrier() const {
    const Program &program = instance.program;
    std::set<std::tuple<OpKind, uint32_t, uint32_t>> seen; // kind, stage, tied weight
    for (OpId id = 0; program.devices > 1 && id < program.deviceBegin[1]; ++id) {
      const Op &op = program.ops[id];
      const bool isJoint = op.kind == OpKind::Reduce || op.kind == OpKind::ReduceTied ||
                           (op.kind == OpKind::Norm && !op.has(Local));
      if (isJoint && seen.insert({op.kind, op.stage, op.microbatch}).second &&
          program.membersOf(op).size() == program.devices)
        return id;
    }
    return noOp;
  }

  Value unknownFigure(llvm::StringRef name, Span span) {
    // People say "bubble" for two ratios that differ; neither is guessed.
    if (name.starts_with("bubble") && name != "bubble_time") {
      auto text = [&](const char *figure) {
        auto value = instance.figures->value(figure);
        return value ? fmt::format("{} ({})", figure, value->str()) : std::string(figure);
      };
      diagnostics
          .report(Rule::AmbiguousDenominator, span,
                  {{"choices", text("idle_fraction") + " or " + text("overhead_ratio")}})
          .fix.message = "idle_fraction is bubble ÷ elapsed, overhead_ratio is bubble ÷ ideal";
      return {};
    }
    std::vector<llvm::StringRef> names;
    for (const FigureInfo &info : allFigures())
      names.push_back(info.name);
    llvm::StringRef near = nearest(name, names);
    diagnostics.report(Rule::UnknownName, span, {{"name", "figure " + name.str()}}).fix.message =
        near.empty() ? "figures are " + llvm::join(names, ", ") : near.str() + "?";
    return {};
  }

  /// False if it fails or cannot be evaluated.
  bool compare(const CheckedExpected &item, int64_t index, std::vector<Rational> &values) {
    auto holds = evaluator.evalBoolean(item.comparison, "an expectation");
    if (!holds)
      return false;
    if (*holds) {
      if (equated(item))
        values.push_back(evaluator.eval(code.nodes[item.comparison].a).number);
      return true;
    }
    NodeId failing = item.comparison;
    // Of `a && b` the part that fails is shown.
    while (code.nodes[failing].op == NodeOp::And) {
      auto left = evaluator.evalBoolean(code.nodes[failing].a, "an expectation");
      failing = left && !*left ? code.nodes[failing].a : code.nodes[failing].b;
    }
    const Node &node = code.nodes[failing];
    std::string figure = sourceText(node.span), value = "false", comparison = "true";
    if (node.op >= NodeOp::Less && node.op <= NodeOp::NotEqual) {
      shown.clear();
      Value left = evaluator.eval(node.a);
      figure = shown.empty() ? sourceText(code.nodes[node.a].span) : shown;
      value = show(left);
      static constexpr const char *operators[] = {"<", "<=", ">", ">=", "==", "!="};
      Value right = evaluator.eval(node.b);
      comparison = fmt::format(
          "{} {}", operators[static_cast<unsigned>(node.op) - static_cast<unsigned>(NodeOp::Less)],
          show(right));
    }
    Finding &finding = diagnostics.report(Rule::ExpectationFailed, item.span,
                                          {{"figure", figure}, {"value", value}, {"comparison", comparison}});
    if (item.variable != noSlot)
      finding.loops.push_back({code.slotNames[item.variable], index});
    explainIdle(finding, figure);
    return false;
  }

  /// `3/11 (27.27 %)`: a ratio also as people compare it.
  std::string show(const Value &value) const {
    std::string text = evaluator.str(value);
    if (value.isNumber() && value.dimension.isNone() && value.number.den != 1)
      if (auto percent = multiply(value.number, Rational(100)))
        text += fmt::format(" ({} %)", percent->decimal(2));
    return text;
  }

  void explainIdle(Finding &finding, llvm::StringRef figure) const {
    if (!figure.starts_with("idle") && !figure.starts_with("overhead") && !figure.starts_with("bubble") &&
        figure != "makespan" && figure != "utilization")
      return;
    int64_t fill = 0, drain = 0, transfer = 0, imbalance = 0, upstream = 0;
    for (const DeviceTimes &times : instance.figures->times) {
      fill += times.fill;
      drain += times.drain;
      transfer += times.stallTransfer;
      imbalance += times.imbalance;
      upstream += times.stallUpstream;
    }
    std::vector<std::string> parts;
    for (auto [name, time] : {std::pair("fill", fill),
                              {"drain", drain},
                              {"stall_transfer", transfer},
                              {"imbalance", imbalance},
                              {"stall_upstream", upstream}})
      if (time != 0)
        parts.push_back(fmt::format("{} {}", name, formatUnits(instance.costs, Rational(time))));
    if (!parts.empty())
      finding.notes.push_back({"idle by cause, over all devices: " + llvm::join(parts, ", "), {}, {}, {}});
  }

  void checkDeadlockFree(const CheckedExpected &item) {
    if (!instance.verdict.complete)
      return;
    const std::optional<Program> posted = postedProgram(instance);
    const Program &program = posted ? *posted : instance.program;
    for (const std::string &model : item.models) {
      auto rules = channelRulesNamed(model, instance.costs.channels);
      if (!rules) {
        std::vector<llvm::StringRef> known = {"rendezvous", "unbounded"};
        for (const Transport &transport : transports())
          known.push_back(transport.name);
        llvm::StringRef near = nearest(model, known);
        diagnostics.report(Rule::UnknownName, item.span, {{"name", "channel model " + model}}).fix.message =
            near.empty() ? llvm::join(known, ", ") + " or eager(k)" : near.str() + "?";
        return;
      }
      if (auto cycle = program.isExplicit ? stuckUnder(program, *rules) : std::nullopt)
        return stuck(item, program, model, *cycle);
    }
  }

  void stuck(const CheckedExpected &item, const Program &program, const std::string &model,
             const WaitCycle &cycle) {
    Finding &finding = diagnostics.report(
        Rule::ExpectationFailed, item.span,
        {{"figure", "the verdict under " + model},
         {"value", fmt::format("stuck, in a cycle of {} hop{}", cycle.size(), cycle.size() == 1 ? "" : "s")},
         {"comparison", "to complete"}});
    for (size_t i = 0; i < cycle.size(); ++i) {
      const WaitHop &hop = cycle[i], &next = cycle[(i + 1) % cycle.size()];
      finding.notes.push_back({fmt::format("device {} stands at {}, which needs {} of device {}", hop.device,
                                           str(program, hop.stands), str(program, next.needed), next.device),
                               program.spanOf(hop.stands), hop.device, str(program, hop.stands)});
    }
    finding.fix.message = fmt::format("`sluice check --transport {}` shows the repair", model);
  }

  std::string sourceText(Span span) const { return sources.text(span).str(); }

  Instance &instance;
  Evaluator &evaluator;
  const SourceManager &sources;
  const Code &code;
  Diagnostics &diagnostics;
  std::optional<BalancedCosts> balanced;
  std::set<uint32_t> barrierChecked; ///< Starts of the figures that 904 has looked at.
  std::string shown;                 ///< The figure last asked for, as a reader names it.
};

} // namespace

/// The blocks that speak of the instance: of the schedule itself and of all it derives from.
static bool speaksOf(const CheckedExpect &expect, const CheckedFile &file, const Instance &instance,
                     bool withImported) {
  return (withImported || !expect.isImported) &&
         llvm::is_contained(instance.uses, &file.schedules[expect.schedule]);
}

bool hasExpectations(const CheckedFile &file, const Instance &instance, bool withImported) {
  return llvm::any_of(file.expects, [&](const CheckedExpect &expect) {
    return speaksOf(expect, file, instance, withImported);
  });
}

size_t expectationCount(const CheckedFile &file, const Instance &instance) {
  size_t count = 0;
  for (const CheckedExpect &expect : file.expects)
    if (speaksOf(expect, file, instance, /*withImported=*/false))
      count += expect.items.size();
  return count;
}

void checkExpectations(Instance &instance, Evaluator &evaluator, const SourceManager &sources,
                       bool withImported) {
  ExpectationChecker checker(instance, evaluator, sources);
  evaluator.figure = [&](llvm::StringRef name, llvm::ArrayRef<Value> arguments, Span span) {
    return checker.figure(name, arguments, span);
  };
  const CheckedFile &file = evaluator.checked();
  for (const CheckedExpect &expect : file.expects)
    if (speaksOf(expect, file, instance, withImported))
      for (const CheckedExpected &item : expect.items)
        checker.check(item, expect);
  evaluator.figure = nullptr;
}

} // namespace sluice
