#include "Emit/FiguresLines.h"

#include "Support/Quantity.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice {

namespace {

constexpr const char *knownForms[] = {"overhead_ratio == (P - 1) / M",
                                      "idle_fraction == (P - 1) / (M + P - 1)"};

class ClosedFormsBlock {
public:
  ClosedFormsBlock(const Program &program, const CostModel &costs, const Figures &figures,
                   const ChartOptions &options)
      : program(program), costs(costs), figures(figures), options(options) {}

  std::string text() {
    const ClosedForms &closed = figures.closed;
    const bool isKnown = closed.overheadRatio.has_value();
    if (isKnown || !closed.stated.empty()) {
      line("equal to the timeline:");
      if (isKnown) {
        const std::string order = fmt::format("{} with P = {}, M = {}, known by its ops", closed.order,
                                              program.stages, program.microbatches);
        form(knownForms[0], percentText(*closed.overheadRatio), order);
        form(knownForms[1], percentText(*closed.idleFraction), "the same");
      }
      for (const StatedForm &stated : closed.stated)
        if (!isKnown || !isOfKnownOrders(stated.formula))
          form(stated.formula, valuesOf(stated), placeOf(stated));
    }
    if (isKnown)
      return std::move(out);
    if (closed.stated.empty())
      line("do not apply:");
    else
      out += "  those of GPipe and 1F1B do not apply:\n";
    for (const FailedAssumption &failed : closed.failed)
      out += fmt::format("    {}{}\n", failed.message, lineOf(failed.span));
    return std::move(out);
  }

private:
  void line(llvm::StringRef value) { out += fmt::format("  {:<18}{}\n", "closed forms", value.str()); }
  static bool isOfKnownOrders(const std::string &formula) { return llvm::is_contained(knownForms, formula); }
  /// `line 12` of the file itself, `std/zb_h1.sluice:30` of one it imports.
  std::string placeOf(const StatedForm &stated) const {
    return stated.isImported ? fmt::format("{}:{}", stated.file, stated.line)
                             : fmt::format("line {}", stated.line);
  }
  /// In one line where that fits a window, else in two.
  void form(const std::string &formula, const std::string &value, const std::string &source) {
    const bool fits = formula.size() + value.size() + source.size() <= 91;
    out += fmt::format("    {}:{}{} ({})\n", formula, fits ? " " : "\n      ", value, source);
  }
  /// Values of a range beside each other; of many the first ones.
  std::string valuesOf(const StatedForm &stated) const {
    static constexpr size_t most = 8;
    std::vector<std::string> values;
    for (size_t i = 0; i < stated.values.size() && i < most; ++i)
      values.push_back(inItsUnit(stated.figure, stated.values[i]));
    if (stated.values.size() > most)
      values.push_back(fmt::format("... {} in all", stated.values.size()));
    return llvm::join(values, ", ");
  }
  std::string inItsUnit(const std::string &figure, const Rational &value) const {
    switch (findFigure(figure)->unit) {
    case FigureUnit::Time:
      return costs.ticks ? fmt::format("{} {}", value.str(), value == 1 ? "tick" : "ticks")
                         : formatTime(value);
    case FigureUnit::Size:
      return value.isInteger() ? formatSize(value.num) : value.str() + " B";
    case FigureUnit::Ratio:
      return percentText(value);
    case FigureUnit::Rate:
      return costs.ticks ? value.str() + "/tick" : fmt::format("{:.6g}/s", value.toDouble() * 1e9);
    case FigureUnit::Count:
      break;
    }
    return value.str();
  }
  std::string lineOf(Span span) const {
    return options.sources && span.isValid()
               ? fmt::format(" (line {})", options.sources->locate(span.begin).line)
               : "";
  }

  const Program &program;
  const CostModel &costs;
  const Figures &figures;
  const ChartOptions &options;
  std::string out;
};

} // namespace

std::string closedFormsText(const Program &program, const CostModel &costs, const Figures &figures,
                            const ChartOptions &options) {
  return ClosedFormsBlock(program, costs, figures, options).text();
}

} // namespace sluice
