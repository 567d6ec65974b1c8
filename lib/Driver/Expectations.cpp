// Rule family 9xx: what `expect` says against what the timeline gives.
#include "Driver/Compilation.h"

#include "Sema/Settings.h"
#include "Support/Words.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice {

namespace {

class ExpectationChecker {
public:
  ExpectationChecker(const Instance &instance, Evaluator &evaluator, const SourceManager &sources)
      : instance(instance), evaluator(evaluator), sources(sources), code(evaluator.checked().code),
        diagnostics(evaluator.diagnostics) {}

  void check(const CheckedExpected &item) {
    if (!item.models.empty())
      return checkDeadlockFree(item);
    if (!instance.figures)
      return;
    auto condition = item.condition == noNode ? std::optional(true)
                                              : evaluator.evalBoolean(item.condition, "the condition");
    if (!condition || !*condition)
      return;
    if (!item.range) {
      compare(item, 0);
      return;
    }
    auto bounds = evaluator.evalRange(*item.range);
    std::vector<uint32_t> alsoFailing;
    std::optional<size_t> reported;
    for (int64_t i = bounds ? bounds->first : 0; bounds && i < bounds->last;) {
      evaluator.set(item.variable, i);
      if (!evaluator.spend(item.span))
        return;
      if (!reported) {
        size_t before = diagnostics.findings().size();
        if (!compare(item, i)) {
          if (diagnostics.findings().size() == before ||
              diagnostics.findings().back().rule != Rule::ExpectationFailed)
            return; // it has no value, and would have none for the others
          reported = diagnostics.findings().size() - 1;
        }
      } else if (auto holds = evaluator.evalBoolean(item.comparison, "an expectation"); holds && !*holds) {
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
  }

  Value figure(llvm::StringRef name, llvm::ArrayRef<Value> arguments, Span span) {
    const Figures &figures = *instance.figures;
    shown = name.str();
    if (!arguments.empty())
      shown += fmt::format("({})", evaluator.str(arguments[0]));
    const FigureInfo *info = findFigure(name);
    if (!info)
      return unknownFigure(name, span);
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
    if (name == "staleness" || name == "weight_versions") {
      diagnostics.report(Rule::NotSupportedYet, span, {{"what", fmt::format("the figure `{}`", name.str())}});
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
  bool compare(const CheckedExpected &item, int64_t index) {
    auto holds = evaluator.evalBoolean(item.comparison, "an expectation");
    if (!holds)
      return false;
    if (*holds)
      return true;
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
    static constexpr llvm::StringRef models[] = {"nccl", "mpi", "gloo", "local", "rendezvous", "unbounded"};
    for (const std::string &model : item.models) {
      llvm::StringRef depth = model;
      bool eager = depth.consume_front("eager(") && depth.consume_back(")");
      if (!eager && !llvm::is_contained(models, llvm::StringRef(model))) {
        llvm::StringRef near = nearest(model, models);
        diagnostics.report(Rule::UnknownName, item.span, {{"name", "channel model " + model}}).fix.message =
            near.empty() ? llvm::join(llvm::ArrayRef(models), ", ") + " or eager(k)" : near.str() + "?";
        return;
      }
      // Inferred communication placed early never sticks unless the compute order is cyclic, whatever the
      // channels; that order has been verified. Placed just in time it is proved for unbounded ones alone.
      bool isProved = instance.costs.communication == "early" || model == "unbounded" || model == "gloo" ||
                      model == "local";
      if (instance.verdict.complete && !isProved) {
        diagnostics.report(Rule::NotSupportedYet, item.span,
                           {{"what", fmt::format("`deadlock_free under {}` with communication inferred({})",
                                                 model, instance.costs.communication)}});
        return;
      }
    }
  }

  std::string sourceText(Span span) const { return sources.text(span).str(); }

  const Instance &instance;
  Evaluator &evaluator;
  const SourceManager &sources;
  const Code &code;
  Diagnostics &diagnostics;
  std::string shown; ///< The figure last asked for, as a reader names it.
};

} // namespace

bool hasExpectations(const CheckedFile &file, llvm::StringRef schedule) {
  return llvm::any_of(file.expects, [&](const CheckedExpect &e) { return e.schedule == schedule; });
}

void checkExpectations(const Instance &instance, Evaluator &evaluator, const SourceManager &sources) {
  ExpectationChecker checker(instance, evaluator, sources);
  evaluator.figure = [&](llvm::StringRef name, llvm::ArrayRef<Value> arguments, Span span) {
    return checker.figure(name, arguments, span);
  };
  for (const CheckedExpect &expect : evaluator.checked().expects)
    if (expect.schedule == instance.name)
      for (const CheckedExpected &item : expect.items)
        checker.check(item);
  evaluator.figure = nullptr;
}

} // namespace sluice
