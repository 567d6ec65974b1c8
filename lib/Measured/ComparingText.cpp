#include "Measured/Comparing.h"

#include "Emit/Columns.h"
#include "Support/Words.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <fmt/format.h>

namespace sluice {

namespace {

class ComparingLines {
public:
  ComparingLines(const Comparing &comparing, const CompareCaption &caption, const SourceManager &sources)
      : comparing(comparing), caption(caption), sources(sources), costs(comparing.measurement->costs),
        program(comparing.measurement->program) {}

  std::string text() {
    std::string result = head();
    result += inColumns(figures()) + "\n";
    result += parts();
    result += inColumns(devices()) + "\n" + inColumns(ops());
    if (!comparing.messages.empty())
      result += "\n" + inColumns(messages());
    result += offenders();
    for (const std::string &note : caption.notes)
      result += "\n  note: " + note;
    return result + (caption.notes.empty() ? "" : "\n");
  }

private:
  std::string time(const Rational &value) const { return formatUnits(costs, value); }
  /// `+3 ms`, `-3 ms`, `0`.
  std::string change(const Rational &value) const {
    if (value.num == 0)
      return "=";
    return (value.num > 0 ? "+" : "") + time(value);
  }
  static std::string percent(const Rational &part) {
    return (part.num > 0 ? "+" : "") + fmt::format("{:.2f} %", 100 * part.toDouble());
  }
  std::string percentOf(const Rational &difference, const Rational &of) const {
    auto part = divide(difference, of);
    return part && part->num != 0 ? percent(*part) : "";
  }

  std::string head() const {
    const Measurement &measurement = *comparing.measurement;
    std::string files;
    for (const std::string &file : caption.files)
      files += (files.empty() ? "" : ", ") + file;
    std::string text = fmt::format("{}: predicted beside {} ({})\n", caption.title,
                                   measurement.isModeled ? "another prediction" : "measured", files);
    const size_t count = comparing.looked.size();
    if (comparing.isChosen)
      text += fmt::format("  step {}\n", comparing.run->step);
    else if (measurement.steps.size() == 1)
      text += measurement.isModeled ? "" : "  one step, so what it does for the first time counts\n";
    else
      text += fmt::format("  step {}, the median of {}{}: {} to {}\n", comparing.run->step,
                          counted(count, "step", "steps"),
                          comparing.leavesFirstOut ? " behind the first, which is left out" : "",
                          time(Rational(comparing.least)), time(Rational(comparing.most)));
    if (comparing.period)
      text += fmt::format("  a step begins every {}\n", time(*comparing.period));
    if (measurement.replicas > 1 && !measurement.isModeled)
      text += fmt::format("  replica {} of {}\n", caption.replica, measurement.replicas);
    if (measurement.incomplete > 0)
      text += fmt::format("  {} left out: they are not complete\n",
                          counted(measurement.incomplete, "step is", "steps are"));
    return text + "\n";
  }

  /// A value of a figure and how it differs.
  std::string shown(const FigureInfo &figure, const Rational &value) const {
    switch (figure.unit) {
    case FigureUnit::Time:
      return time(value);
    case FigureUnit::Ratio:
      return fmt::format("{:.2f} %", 100 * value.toDouble());
    case FigureUnit::Rate: {
      const auto base = divide(value, costs.unit);
      return base ? fmt::format("{:.6g} /{}", base->toDouble() * (costs.ticks ? 1 : 1e9),
                                costs.ticks ? "tick" : "s")
                  : "?";
    }
    default:
      return value.decimal(3);
    }
  }
  static llvm::StringRef meaning(llvm::StringRef name) {
    static constexpr std::pair<llvm::StringRef, llvm::StringRef> meanings[] = {
        {"ideal", "mean busy"},
        {"bubble_time", "mean idle"},
        {"overhead_ratio", "of ideal"},
        {"idle_fraction", "of makespan"},
        {"utilization", "of makespan"},
        {"throughput", "samples"},
        {"span_bubble_rate", "of longest span"}};
    for (const auto &[figure, text] : meanings)
      if (figure == name)
        return text;
    return "";
  }
  std::vector<std::vector<std::string>> figures() const {
    std::vector<std::vector<std::string>> rows = {
        {"", "predicted", "measured", "difference", "of predicted"}};
    for (const FigureInfo &figure : runFigures()) {
      auto before = predictedFigure(*comparing.measurement, *comparing.figures, figure);
      auto after = comparing.measured->value(figure.name);
      if (!before || !after || (before->num == 0 && after->num == 0))
        continue;
      std::string label = figure.name.str();
      if (llvm::StringRef text = meaning(figure.name); !text.empty())
        label += " (" + text.str() + ")";
      else if (figure.arity == FigureArity::Device)
        label += " (most of a device)";
      else if (figure.arity == FigureArity::Stage)
        label += " (most of a stage)";
      const auto difference = subtract(*after, *before);
      std::string by = "?", part;
      if (difference && difference->num == 0) {
        by = "=";
      } else if (difference && figure.unit == FigureUnit::Ratio) {
        by = fmt::format("{:+.2f} pt", 100 * difference->toDouble());
      } else if (difference) {
        by = (difference->num > 0 ? "+" : "") + shown(figure, *difference);
        part = percentOf(*difference, *before);
      }
      rows.push_back({label, shown(figure, *before), shown(figure, *after), by, part});
    }
    return rows;
  }

  std::string parts() const {
    const Rational predicted(comparing.measurement->predicted.makespan);
    const Rational whole(comparing.run->makespan() - predicted.num);
    std::string text = "  where the model is wrong: makespan ";
    text += whole.num == 0 ? "as predicted\n" : change(whole) + ", of which\n";
    std::vector<std::vector<std::string>> rows;
    for (const MakespanPart &part : comparing.parts)
      if (part.time != 0)
        rows.push_back(
            {"  " + part.what, change(Rational(part.time)), percentOf(Rational(part.time), predicted)});
    return text + inColumns(rows) + "\n";
  }

  std::vector<std::vector<std::string>> devices() const {
    static constexpr llvm::StringRef names[] = {"busy", "idle", "fill", "drain", "gaps"};
    std::vector<std::vector<std::string>> rows = {{"device"}};
    for (llvm::StringRef name : names) {
      rows[0].push_back(name.str());
      rows[0].push_back("measured");
    }
    for (uint32_t device = 0; device < program.devices; ++device) {
      rows.push_back({std::to_string(device)});
      for (llvm::StringRef name : names) {
        const FigureInfo &figure =
            *llvm::find_if(runFigures(), [&](const FigureInfo &info) { return info.name == name; });
        auto before = predictedFigure(*comparing.measurement, *comparing.figures, figure, device);
        rows.back().push_back(before ? time(*before) : "?");
        auto after = comparing.measured->value(name, device);
        rows.back().push_back(after ? time(*after) : "?");
      }
    }
    return rows;
  }

  std::vector<std::vector<std::string>> ops() const {
    std::vector<std::vector<std::string>> rows = {
        {"op", "count", "predicted", "mean", "difference", "of predicted", "least", "most", "deviation"}};
    for (const OpClass &group : comparing.classes) {
      const auto difference = subtract(group.mean, group.predicted);
      rows.push_back({fmt::format("{}({})", name(group.kind).str(), group.stage), std::to_string(group.count),
                      time(group.predicted), time(group.mean), difference ? change(*difference) : "?",
                      difference ? percentOf(*difference, group.predicted) : "", time(Rational(group.least)),
                      time(Rational(group.most)), time(Rational(std::llround(group.deviation)))});
    }
    return rows;
  }

  std::vector<std::vector<std::string>> messages() const {
    std::vector<std::vector<std::string>> rows = {
        {"message", "count", "predicted", "least", "difference", "of predicted", "median", "most"}};
    for (const MessageClass &group : comparing.messages) {
      const Rational difference(group.least - group.predicted);
      rows.push_back(
          {fmt::format("{} {} -> {}", group.isGradient ? "gradient" : "activation", group.from, group.to),
           std::to_string(group.count), time(Rational(group.predicted)), time(Rational(group.least)),
           change(difference), percentOf(difference, Rational(group.predicted)), time(Rational(group.median)),
           time(Rational(group.most))});
    }
    return rows;
  }

  std::string offenders() const {
    if (comparing.offenders.empty())
      return "";
    std::vector<std::vector<std::string>> rows = {
        {"worst of the step", "device", "predicted", "measured", "difference", ""}};
    for (const Offender &offender : comparing.offenders) {
      const Span span = program.spanOf(offender.op);
      std::string place;
      if (span.isValid()) {
        const Location location = sources.locate(span.begin);
        place = fmt::format("{}:{}", location.file.str(), location.line);
      }
      rows.push_back({str(program, offender.op), std::to_string(program.deviceOf(offender.op)),
                      time(Rational(offender.predicted)), time(Rational(offender.measured)),
                      change(Rational(offender.difference())), place});
    }
    return "\n" + inColumns(rows);
  }

  const Comparing &comparing;
  const CompareCaption &caption;
  const SourceManager &sources;
  const CostModel &costs;
  const Program &program;
};

} // namespace

std::string comparingText(const Comparing &comparing, const CompareCaption &caption,
                          const SourceManager &sources) {
  return ComparingLines(comparing, caption, sources).text();
}

} // namespace sluice
