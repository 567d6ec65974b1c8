// sluice list: the schedule library, at a glance, one entry whole, as JSON, or as the pages of
// docs/schedules.
#include "Common.h"
#include "LibraryPages.h"

#include "Emit/Chart.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace sluice::tool {

namespace cl = llvm::cl;

static cl::opt<std::string> scheduleToList(cl::Positional, cl::desc("[NAME]"), cl::sub(listCommand));
static cl::opt<std::string> format("format", cl::desc("text, json or markdown"), cl::sub(listCommand));
static cl::opt<bool> markdown("markdown", cl::desc("The same as --format markdown"), cl::sub(listCommand));
static cl::opt<std::string> output("o",
                                   cl::desc("With markdown: write a page and a picture of each schedule, "
                                            "and README.md"),
                                   cl::value_desc("FOLDER"), cl::sub(listCommand));

/// Broken at blanks into lines of at most `width`, each behind `indent` blanks; the first line goes on from
/// where a text of `indent` columns ends.
static std::string wrapped(llvm::StringRef text, size_t indent, size_t width) {
  std::string lines;
  size_t used = indent;
  llvm::SmallVector<llvm::StringRef> words;
  text.split(words, ' ', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef word : words) {
    if (used > indent && used + 1 + word.size() > width) {
      lines += "\n" + std::string(indent, ' ');
      used = indent;
    }
    if (used > indent) {
      lines += ' ';
      ++used;
    }
    lines += word;
    used += word.size();
  }
  return lines + "\n";
}

static std::string overview(const Library &library) {
  const size_t width = std::max(terminalWidth(), 60u);
  std::string out =
      fmt::format("{:<52}{:>18}{:>11}{:>9}\n", "schedule", "idle fraction", "peak act.", "share");
  for (const LibraryEntry &entry : library.entries()) {
    const Figures &figures = *entry.instance.figures;
    std::string head = entry.signature();
    if (head.size() > 51)
      head += "\n" + std::string(52, ' ');
    out += fmt::format("{:<52}{:>18}{:>11}{:>9}\n", head,
                       figures.idleFraction ? percentText(*figures.idleFraction) : "-",
                       entry.peakActivation(), entry.peakShare().decimal(2));
    out += "    " + wrapped(entry.summary(), 4, width);
    std::vector<std::string> conditions;
    for (const LibraryConstraint &constraint : entry.constraints)
      conditions.push_back(constraint.condition);
    if (!conditions.empty())
      out += "    requires " + wrapped(llvm::join(conditions, "; "), 13, width);
    for (const std::string &form : entry.forms)
      out += "    states   " + wrapped(form, 15, width);
  }
  out +=
      "\n" + wrapped("idle fraction: bubble / elapsed. peak act.: most pairs of stage and microbatch alive "
                     "at once on a device; share: the same, counted in microbatches of all stages that a "
                     "device holds. Computed at the defaults shown, " +
                         std::string(libraryCosts) + ".",
                     0, width);
  return out + "\n`sluice list NAME` shows one of them whole, `sluice init --schedule NAME` starts a file "
               "with it.\n";
}

static std::string whole(const Library &library, const LibraryEntry &entry) {
  std::string out = entry.signature() + "\n\n";
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(entry.documentation).split(lines, '\n');
  for (llvm::StringRef line : lines)
    out += line.empty() ? "\n" : ("  " + line + "\n").str();
  if (!entry.constraints.empty())
    out += "\nrequires\n";
  for (const LibraryConstraint &constraint : entry.constraints)
    out += fmt::format("  {}{}\n", constraint.condition,
                       constraint.message.empty() ? "" : "\n    " + constraint.message);
  if (!entry.forms.empty())
    out += "\nclosed forms\n";
  for (const std::string &form : entry.forms)
    out += "  " + form + "\n";
  out += "\nto use it\n";
  for (const std::string &line : entry.use())
    out += "  " + line + "\n";
  out += "\n";
  ChartOptions options;
  options.width = terminalWidth();
  options.color = stdoutHasColors();
  options.sources = &library.sources();
  options.maxRows = entry.instance.program.devices > 32 ? 32 : 0;
  const Instance &instance = entry.instance;
  return out + fmt::format("{} at {}\n\n", instance.name, instance.parameterText()) +
         chart(instance.program, instance.costs, *instance.timeline, *instance.figures, options);
}

static void writeFigure(llvm::json::OStream &json, llvm::StringRef name, const Rational &value,
                        llvm::StringRef unit) {
  json.attributeObject(name, [&] {
    json.attribute("exact", value.str());
    json.attribute("value", value.toDouble());
    json.attribute("unit", unit);
  });
}

static void writeEntry(llvm::json::OStream &json, const LibraryEntry &entry) {
  json.attribute("name", entry.name);
  json.attribute("import", entry.file);
  json.attribute("summary", entry.summary());
  json.attribute("documentation", entry.documentation);
  json.attributeArray("use", [&] {
    for (const std::string &line : entry.use())
      json.value(line);
  });
  json.attributeArray("parameters", [&] {
    for (const LibraryParameter &parameter : entry.parameters)
      json.object([&] {
        json.attribute("name", parameter.name);
        json.attribute("default", parameter.value);
        if (!parameter.range.empty())
          json.attribute("range", parameter.range);
        if (!parameter.meaning.empty())
          json.attribute("meaning", parameter.meaning);
      });
  });
  json.attributeArray("constraints", [&] {
    for (const LibraryConstraint &constraint : entry.constraints)
      json.object([&] {
        json.attribute("condition", constraint.condition);
        json.attribute("message", constraint.message);
      });
  });
  json.attributeArray("closed_forms", [&] {
    for (const std::string &form : entry.forms)
      json.value(form);
  });
  json.attributeObject("at", [&] {
    for (const auto &[name, value] : entry.instance.parameters)
      json.attribute(name, value);
  });
  json.attributeObject("figures", [&] {
    const Figures &figures = *entry.instance.figures;
    for (llvm::StringRef name : {"makespan", "bubble_time"})
      if (auto value = figures.valueInBaseUnits(name))
        writeFigure(json, name, *value, "tick");
    for (llvm::StringRef name : {"idle_fraction", "overhead_ratio", "peak_activation"})
      if (auto value = figures.value(name))
        writeFigure(json, name, *value, "1");
    writeFigure(json, "peak_share", entry.peakShare(), "1");
  });
}

static std::string asJson(llvm::ArrayRef<const LibraryEntry *> entries) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream json(stream, 2);
  json.object([&] {
    json.attribute("version", 1);
    json.attributeArray("schedules", [&] {
      for (const LibraryEntry *entry : entries)
        json.object([&] { writeEntry(json, *entry); });
    });
  });
  return text + "\n";
}

static ExitCode writePages(llvm::ArrayRef<const LibraryEntry *> entries, bool withIndex) {
  if (std::error_code error = llvm::sys::fs::create_directories(output))
    return usageError("cannot make the folder " + output + ": " + error.message());
  auto write = [&](const std::string &name, const std::string &text) {
    llvm::SmallString<128> path(output);
    llvm::sys::path::append(path, name);
    return writeFile(path, text);
  };
  for (const LibraryEntry *entry : entries)
    for (auto [suffix, text] : {std::pair(".md", libraryPage(*entry)), {".svg", libraryPicture(*entry)}})
      if (ExitCode code = write(entry->name + suffix, text); code != Clean)
        return code;
  return withIndex ? write("README.md", libraryIndex(entries)) : Clean;
}

ExitCode runList() {
  const std::string kind = markdown ? "markdown" : format.empty() ? "text" : format.getValue();
  if (kind != "text" && kind != "json" && kind != "markdown")
    return usageError("the format " + kind + " is not supported: text, json or markdown");
  if (!output.empty() && kind != "markdown")
    return usageError("-o takes a folder for the pages of --markdown; other formats go to standard output");
  std::string error;
  const std::vector<Setting> settings = parseDefinitions(definitions, error);
  if (!error.empty())
    return usageError("-D: " + error);
  if (settings.size() != 1)
    return usageError("this command takes one value for each parameter; `sluice check` takes several");
  if (scheduleToList.empty() && !settings[0].empty())
    return usageError("-D sets the parameters of one schedule: sluice list NAME -D P=8");

  if (!scheduleToList.empty())
    if (std::string unknown = Library::unknown(scheduleToList); !unknown.empty())
      return usageError(unknown);
  Library library(scheduleToList, settings[0]);
  std::vector<const LibraryEntry *> entries;
  if (!scheduleToList.empty()) {
    const LibraryEntry *entry = library.find(scheduleToList);
    if (!entry)
      return library.failed();
    entries.push_back(entry);
  } else {
    for (const LibraryEntry &entry : library.entries())
      entries.push_back(&entry);
  }
  if (!output.empty())
    return writePages(entries, scheduleToList.empty());
  if (kind == "json")
    print(asJson(entries));
  else if (kind == "markdown")
    print(scheduleToList.empty() ? libraryIndex(entries) : libraryPage(*entries[0]));
  else
    print(scheduleToList.empty() ? overview(library) : whole(library, *entries[0]));
  return library.failed();
}

} // namespace sluice::tool
