#include "Emit/Html.h"

#include "Emit/HtmlFigures.h"
#include "Emit/HtmlSchedule.h"
#include "Emit/PageFiles.h"
#include "Emit/Palette.h"
#include "Emit/SvgRows.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace sluice {

namespace {

/// A look's shades for a device of many stages, as SvgRows takes them.
void writeLooks(llvm::json::OStream &json) {
  json.attributeArray("looks", [&] {
    for (unsigned look = 0; look < lookCount; ++look)
      json.object([&] {
        json.attribute("meaning", info(static_cast<Look>(look)).meaning);
        json.attributeArray("shades", [&] {
          for (unsigned shade = 0; shade < maxShades; ++shade)
            json.value(fmt::format("#{:06x}", shadeOf(static_cast<Look>(look), shade, maxShades)));
        });
      });
  });
  json.attributeArray("lookOf", [&] {
    for (unsigned kind = 0; kind < opKindCount; ++kind)
      json.value(static_cast<int64_t>(lookOf(Op{static_cast<OpKind>(kind)})));
  });
}

std::string section(const TimedSchedule &schedule, size_t number) {
  const std::string parameters = schedule.parameterText();
  return fmt::format(
      "<section class=\"schedule\" aria-labelledby=\"name{0}\">\n"
      "<h2 id=\"name{0}\">{1}{2}</h2>\n{3}"
      "<div class=\"chart\" data-schedule=\"{0}\"></div>\n"
      "<details><summary>All figures</summary>\n{4}</details>\n</section>\n",
      number, escaped(schedule.program.name),
      parameters.empty() ? "" : fmt::format(" <span class=\"parameters\">{}</span>", escaped(parameters)),
      figureTiles(schedule), figureTables(schedule));
}

} // namespace

llvm::Expected<std::string> html(llvm::ArrayRef<TimedSchedule> schedules) {
  std::vector<HtmlSchedule> contents;
  uint64_t ops = 0;
  for (const TimedSchedule &schedule : schedules)
    ops += contents.emplace_back(schedule).opCount();
  if (ops > maxPageOps)
    return llvm::createStringError(
        llvm::inconvertibleErrorCode(), "%s",
        fmt::format("a page holds up to {} ops, and here are {}: show a part of them by --from, --to or "
                    "--devices, or draw a picture (-o FILE.svg)",
                    maxPageOps, ops)
            .c_str());
  std::string data;
  llvm::raw_string_ostream stream(data);
  llvm::json::OStream json(stream);
  json.object([&] {
    writeLooks(json);
    const auto asked = [&](bool ChartOptions::*strip) {
      return llvm::any_of(schedules, [&](const TimedSchedule &schedule) { return schedule.part.*strip; });
    };
    json.attributeObject("shows", [&] {
      json.attribute("critical", asked(&ChartOptions::critical));
      json.attribute("memory", asked(&ChartOptions::memoryStrip));
      json.attribute("transfers", asked(&ChartOptions::transfers));
    });
    json.attributeArray("schedules", [&] {
      for (const HtmlSchedule &content : contents)
        content.write(json);
    });
  });
  std::string names, body;
  for (const auto &[number, schedule] : llvm::enumerate(schedules)) {
    names += (names.empty() ? "" : ", ") + escaped(schedule.program.name);
    body += section(schedule, number);
  }
  return filledPage("timeline.html", {{"names", names}, {"schedules", body}, {"data", scriptSafe(data)}});
}

} // namespace sluice
