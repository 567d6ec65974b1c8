#include "LibraryPages.h"

#include "Emit/Svg.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice::tool {

static constexpr llvm::StringLiteral generated =
    "<!-- Made by `sluice list --markdown -o docs/schedules` from lib/Std; do not edit. -->\n";

/// A cell of a table may hold no bar.
static std::string cell(llvm::StringRef text) {
  std::string result;
  for (char c : text)
    result += c == '|' ? "\\|" : std::string(1, c);
  return result;
}
static std::string code(llvm::StringRef text) { return ("`" + text + "`").str(); }

static std::string constraints(const LibraryEntry &entry) {
  if (entry.constraints.empty())
    return "";
  std::string out = "\n## Requires\n\n";
  for (const LibraryConstraint &constraint : entry.constraints)
    out += fmt::format("- {}{}\n", code(constraint.condition),
                       constraint.message.empty() ? "" : ": " + constraint.message);
  return out;
}

static std::string closedForms(const LibraryEntry &entry) {
  if (entry.forms.empty())
    return "";
  std::string out =
      "\n## Closed forms\n\nStated in the file, and checked wherever their condition holds:\n\n";
  for (const std::string &form : entry.forms)
    out += "- " + code(form) + "\n";
  return out;
}

static std::string figuresTable(const LibraryEntry &entry) {
  const Figures &figures = *entry.instance.figures;
  const CostModel &costs = entry.instance.costs;
  std::string out =
      fmt::format("\n## Figures at {}\n\n{}: modeled, not measured.\n\n"
                  "| figure | value | of what |\n| --- | ---: | --- |\n",
                  entry.instance.parameterText(),
                  costs.isDefault ? "With " + libraryCosts.str() : "With the costs of the file");
  auto row = [&](llvm::StringRef name, const std::string &value, llvm::StringRef of) {
    out += fmt::format("| {} | {} | {} |\n", name.str(), value, of.str());
  };
  row("makespan", formatUnits(costs, figures.makespan), "from the first op to the end of the last");
  row("bubble time", formatUnits(costs, figures.bubbleTime), "mean idle time of a device");
  if (figures.idleFraction)
    row("idle fraction", percentText(*figures.idleFraction), "bubble ÷ elapsed");
  if (figures.overheadRatio)
    row("overhead ratio", percentText(*figures.overheadRatio), "bubble ÷ ideal");
  row("peak activation", std::to_string(entry.peakActivation()),
      "pairs of stage and microbatch alive at once on the fullest device");
  row("as a share", entry.peakShare().decimal(2),
      "the same in whole microbatches of all stages that a device holds");
  row("transfers", std::to_string(figures.transfers), "activations and gradients that change devices");
  return out;
}

std::string libraryPage(const LibraryEntry &entry) {
  std::string out = generated.str() + "\n# " + entry.name + "\n\n" + entry.documentation + "\n\n";
  out += fmt::format("![Timeline of {0} at {1}]({0}.svg)\n", entry.name, entry.instance.parameterText());
  out += "\n## Parameters\n\n| name | default | range |\n| --- | --- | --- |\n";
  for (const LibraryParameter &parameter : entry.parameters)
    out += fmt::format("| {} | {} | {} |\n", code(parameter.name),
                       parameter.value.empty() ? "none" : code(cell(parameter.value)),
                       parameter.range.empty() ? "" : code(parameter.range));
  out += constraints(entry) + closedForms(entry) + figuresTable(entry);
  out += "\n## Use\n\n```sluice\n" + llvm::join(entry.use(), "\n") + "\n```\n\n" +
         fmt::format("`sluice init --schedule {}` starts a file with a model to fill in.\n", entry.name);
  return out + fmt::format("\n## Source\n\n`{}`, whole:\n\n```sluice\n{}\n```\n", entry.file,
                           entry.text.rtrim('\n').str());
}

std::string libraryPicture(const LibraryEntry &entry) {
  const Instance &instance = entry.instance;
  return svg({{instance.program, *instance.index, instance.costs, *instance.timeline, *instance.figures,
               instance.parameters}});
}

std::string libraryIndex(llvm::ArrayRef<const LibraryEntry *> entries) {
  std::string out =
      generated.str() +
      "\n# Schedules of the library\n\nPublished schedules, written in the language; `import \"std/NAME\";` "
      "brings one into a file.\n`sluice list` prints this table, `sluice list NAME` a page, and "
      "`sluice init --schedule NAME` starts a file.\n\n"
      "| schedule | what it is | at | idle fraction | peak activation | share |\n"
      "| --- | --- | --- | ---: | ---: | ---: |\n";
  for (const LibraryEntry *entry : entries) {
    const Figures &figures = *entry->instance.figures;
    out += fmt::format("| [{0}]({0}.md) | {1} | {2} | {3} | {4} | {5} |\n", entry->name,
                       cell(entry->summary()), entry->instance.parameterText(),
                       figures.idleFraction ? percentText(*figures.idleFraction) : "-",
                       entry->peakActivation(), entry->peakShare().decimal(2));
  }
  return out + "\nComputed at the parameters shown with " + libraryCosts.str() +
         ".\nIdle fraction: bubble ÷ elapsed. Peak activation: most pairs of stage and microbatch alive at "
         "once "
         "on a device; share:\nthe same, counted in whole microbatches of all stages that a device holds.\n";
}

} // namespace sluice::tool
