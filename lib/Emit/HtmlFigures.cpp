#include "Emit/HtmlFigures.h"

#include "Emit/SvgRows.h"
#include "Support/Quantity.h"
#include "Support/Words.h"

#include <fmt/format.h>

namespace sluice {

namespace {

std::string words(llvm::StringRef figure) {
  std::string text = figure.str();
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

/// What a figure is the mean, the most or a share of; empty where its name says it all.
llvm::StringRef denominator(llvm::StringRef figure) {
  static constexpr std::pair<llvm::StringRef, llvm::StringRef> rows[] = {
      {"ideal", "mean busy time of a device"},
      {"bubble_time", "mean idle time of a device"},
      {"idle_fraction", "bubble ÷ elapsed"},
      {"overhead_ratio", "bubble ÷ ideal"},
      {"utilization", "mean useful ÷ elapsed"},
      {"span_bubble_rate", "of the longest span, first to last op"},
      {"transfer_exposed", "makespan less the one with free transfers"},
      {"peak_activation", "pairs of stage and microbatch, fullest device"},
      {"peak_memory", "fullest device"},
      {"throughput", "samples of all replicas"},
  };
  for (const auto &[name, text] : rows)
    if (name == figure)
      return text;
  return "";
}

std::string valueText(const TimedSchedule &schedule, const FigureInfo &figure,
                      std::optional<uint32_t> index = std::nullopt) {
  auto value = schedule.figures.value(figure.name, index);
  if (!value)
    return "";
  switch (figure.unit) {
  case FigureUnit::Time:
    return formatUnits(schedule.costs, *value);
  case FigureUnit::Ratio:
    return percentText(*value);
  case FigureUnit::Size:
    return formatSize(*value);
  case FigureUnit::Count:
    return value->decimal(3);
  case FigureUnit::Rate:
    break;
  }
  auto base = schedule.figures.valueInBaseUnits(figure.name, index);
  if (!base)
    return value->str();
  return schedule.costs.ticks ? fmt::format("{} /tick", base->decimal(4))
                              : fmt::format("{:.6g} /s", base->toDouble() * 1e9);
}

std::string ofSchedule(const TimedSchedule &schedule) {
  std::string out = "<table class=\"figures\"><caption>Of the schedule</caption><tbody>\n";
  for (const FigureInfo &figure : allFigures()) {
    const std::string value =
        figure.arity == FigureArity::Schedule ? valueText(schedule, figure) : std::string();
    if (!value.empty())
      out += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"remark\">{}</td></tr>\n",
                         words(figure.name), value, denominator(figure.name).str());
  }
  return out + "</tbody></table>\n";
}

/// A row a device or stage, a column a figure.
std::string ofEach(const TimedSchedule &schedule, FigureArity arity, llvm::StringRef noun, uint32_t first,
                   uint32_t end) {
  std::vector<const FigureInfo *> columns;
  for (const FigureInfo &figure : allFigures())
    if (figure.arity == arity && first < end && !valueText(schedule, figure, first).empty())
      columns.push_back(&figure);
  std::string out =
      fmt::format("<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Figures of each {0}\">"
                  "<table class=\"figures\"><caption>Of each {0}</caption>"
                  "<thead><tr><th scope=\"col\">{0}</th>",
                  noun.str());
  for (const FigureInfo *figure : columns)
    out += fmt::format("<th scope=\"col\">{}</th>", words(figure->name));
  out += "</tr></thead><tbody>\n";
  for (uint32_t i = first; i < end; ++i) {
    out += fmt::format("<tr><th scope=\"row\">{}</th>", i);
    for (const FigureInfo *figure : columns)
      out += fmt::format("<td>{}</td>", valueText(schedule, *figure, i));
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

} // namespace

std::string figureTiles(const TimedSchedule &schedule) {
  std::string out = "<dl class=\"tiles\">\n";
  for (llvm::StringRef name : {"makespan", "idle_fraction", "overhead_ratio", "bubble_time",
                               "transfer_exposed", "throughput", "peak_activation", "peak_memory"}) {
    const FigureInfo *figure = findFigure(name);
    const std::string value = figure ? valueText(schedule, *figure) : "";
    if (value.empty() || (name == "transfer_exposed" && schedule.figures.transferExposed == 0))
      continue;
    out += fmt::format("<div><dt>{} <small>{}</small></dt><dd>{}</dd></div>\n", words(name),
                       denominator(name).str(), value);
  }
  out += "</dl>\n<p class=\"remark\">Modeled, not measured.";
  if (schedule.costs.isDefault)
    out += " No model in the file: forward, backward_input and backward_weight take 1 tick each, transfers "
           "none.";
  return out + "</p>\n";
}

std::string figureTables(const TimedSchedule &schedule) {
  const Program &program = schedule.program;
  const uint32_t end = std::min(schedule.part.deviceEnd, program.devices);
  ChartOptions part = schedule.part;
  part.color = false;
  return ofSchedule(schedule) +
         ofEach(schedule, FigureArity::Device, "device", std::min(schedule.part.firstDevice, end), end) +
         ofEach(schedule, FigureArity::Stage, "stage", 0, program.stages) +
         "<h3>As text</h3>\n<pre class=\"wide\" tabindex=\"0\">" +
         escaped(figuresText(program, schedule.costs, schedule.figures, part)) + "</pre>\n";
}

} // namespace sluice
