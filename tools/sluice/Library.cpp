#include "Library.h"

#include "Emit/FindingsText.h"
#include "Std/LibraryText.h"
#include "Support/Words.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice::tool {

/// The text on one line.
static std::string flat(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> words;
  text.split(words, ' ', -1, /*KeepEmpty=*/false);
  return llvm::join(words, " ");
}
static std::string flatLines(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return flat(text);
}

/// What a list item "- `P`: …" says, on one line.
static std::string meaningOf(const std::string &parameter, llvm::StringRef documentation) {
  std::string text;
  llvm::SmallVector<llvm::StringRef> lines;
  documentation.split(lines, '\n');
  bool isInside = false;
  for (llvm::StringRef line : lines) {
    if (line.consume_front("- `" + parameter + "`: "))
      isInside = true;
    else if (isInside && !line.consume_front("  "))
      break;
    if (isInside)
      text += (text.empty() ? "" : " ") + line.str();
  }
  return text;
}

/// Names of the schedules that a file declares at the beginning of a line.
static std::vector<std::string> schedulesOf(const LibraryFile &file) {
  std::vector<std::string> names;
  llvm::SmallVector<llvm::StringRef> lines;
  file.text.split(lines, '\n');
  for (llvm::StringRef line : lines)
    if (line.consume_front("schedule "))
      names.push_back(line.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; }).str());
  return names;
}

std::string LibraryEntry::summary() const {
  const std::string line = flatLines(llvm::StringRef(documentation).split("\n\n").first.str());
  for (size_t i = 0; i + 1 < line.size(); ++i)
    // Not the point of `et al.` or of an initial.
    if (line[i] == '.' && line[i + 1] == ' ' && !llvm::StringRef(line).take_front(i).ends_with("et al") &&
        !(i > 1 && llvm::isUpper(line[i - 1]) && line[i - 2] == ' '))
      return line.substr(0, i + 1);
  return line;
}

std::string LibraryEntry::signature() const {
  std::vector<std::string> list;
  for (const LibraryParameter &parameter : parameters)
    list.push_back(parameter.name + (parameter.value.empty() ? "" : " = " + parameter.value) +
                   (parameter.range.empty() ? "" : " in " + parameter.range));
  return name + "(" + llvm::join(list, ", ") + ")";
}

std::vector<std::string> LibraryEntry::use() const {
  std::vector<std::string> list, lines = {"import \"" + file + "\";"};
  for (const auto &[parameter, value] : instance.parameters)
    list.push_back(parameter + " = " + value);
  if (instance.costs.asynchronous)
    lines.push_back("training { semantics = asynchronous; }");
  lines.push_back("schedule main = " + name + "(" + llvm::join(list, ", ") + ");");
  return lines;
}

uint32_t LibraryEntry::peakActivation() const {
  uint32_t peak = 0;
  for (const DeviceMemory &memory : instance.figures->memory.devices)
    peak = std::max(peak, memory.peakActivation);
  return peak;
}

Rational LibraryEntry::peakShare() const {
  size_t most = 1;
  for (uint32_t device = 0; device < instance.program.devices; ++device)
    most = std::max(most, instance.program.stagesOn(device).size());
  return *Rational::make(peakActivation(), static_cast<__int128>(most) * instance.program.sequenceSplits);
}

Library::Library(llvm::StringRef only, const Setting &setting) {
  only.consume_front("std/");
  for (const LibraryFile &file : libraryFiles()) {
    const llvm::StringRef name = file.name.drop_back(7); // without `.sluice`
    if (only.empty() || name == only || llvm::is_contained(schedulesOf(file), only.str()))
      add(name, only == name ? "" : only, setting);
  }
  llvm::sort(all, [](const LibraryEntry &a, const LibraryEntry &b) { return a.name < b.name; });
}

void Library::add(llvm::StringRef file, llvm::StringRef only, const Setting &setting) {
  const std::string path = ("std/" + file).str();
  FileLoader::Result read = loader.read(path, "");
  Diagnostics diagnostics;
  Compilation &compilation = *compilations.emplace_back(std::make_unique<Compilation>(texts, loader));
  if (!compilation.load(read.text, diagnostics)) {
    report(diagnostics);
    return;
  }
  for (const ast::Item &item : compilation.tree().items) {
    const auto *schedule = std::get_if<ast::Schedule>(&item);
    if (!schedule || schedule->documentation.empty() || !(only.empty() || schedule->name.text == only))
      continue;
    LibraryEntry entry;
    entry.name = schedule->name.text;
    entry.file = path;
    entry.documentation = schedule->documentation;
    entry.text = texts.text(read.text);
    addSchedule(compilation, *schedule, std::move(entry), setting);
  }
}

/// True if every name in `expr` is one of the parameters.
static bool usesOnly(const ast::Expr &expr, llvm::ArrayRef<LibraryParameter> parameters) {
  const bool isKnown =
      expr.kind != ast::ExprKind::Name ||
      llvm::any_of(parameters, [&](const LibraryParameter &p) { return p.name == expr.text; });
  return isKnown && expr.kind != ast::ExprKind::Call &&
         llvm::all_of(expr.children, [&](const ast::ExprPtr &child) { return usesOnly(*child, parameters); });
}

void Library::addSchedule(Compilation &compilation, const ast::Schedule &schedule, LibraryEntry entry,
                          const Setting &setting) {
  auto written = [&](Span span) { return flatLines(texts.text(span).str()); };
  for (const ast::ScheduleParameter &parameter : schedule.parameters)
    entry.parameters.push_back(
        {parameter.name.text, parameter.value ? written(parameter.value->span) : "",
         parameter.range ? written(join(parameter.range->first->span, parameter.range->last->span)) : "",
         meaningOf(parameter.name.text, entry.documentation)});
  for (const ast::ScheduleItem &item : schedule.items) {
    if (const auto *require = std::get_if<ast::Require>(&item))
      entry.constraints.push_back({written(require->condition->span), require->message});
    if (const auto *place = std::get_if<ast::Place>(&item); place && place->stages)
      if (usesOnly(*place->stages->last, entry.parameters))
        entry.stages = written(place->stages->last->span);
  }
  for (const ast::Item &item : compilation.tree().items)
    if (const auto *expect = std::get_if<ast::Expect>(&item); expect && expect->name.text == entry.name)
      for (const ast::Expected &expected : expect->items)
        entry.forms.push_back(llvm::StringRef(written(expected.span)).rtrim(';').str());

  CompileOptions options = compileOptions();
  options.schedule = entry.name;
  if (!checkParameterNames(compilation, setting, options)) {
    code = Usage;
    return;
  }
  Diagnostics diagnostics;
  compilation.run(setting, options, Compilation::Depth::Figures, diagnostics,
                  [&](Instance &instance) { entry.instance = std::move(instance); });
  report(diagnostics);
  if (entry.instance.figures)
    all.push_back(std::move(entry));
}

void Library::report(Diagnostics &diagnostics) {
  diagnostics.finish();
  FindingsTextOptions options;
  options.color = stderrHasColors();
  llvm::errs() << findingsText(diagnostics.findings(), texts, options);
  if (diagnostics.hasErrors())
    code = Findings;
}

const LibraryEntry *Library::find(llvm::StringRef name) const {
  name.consume_front("std/");
  for (const LibraryEntry &entry : all)
    if (entry.name == name)
      return &entry;
  for (const LibraryEntry &entry : all) // a file of several schedules stands for its first
    if (llvm::StringRef(entry.file).drop_front(4) == name)
      return &entry;
  return nullptr;
}

std::vector<std::string> Library::names() {
  std::vector<std::string> names;
  for (const LibraryFile &file : libraryFiles())
    llvm::append_range(names, schedulesOf(file));
  llvm::sort(names);
  return names;
}

std::string Library::unknown(llvm::StringRef name) {
  llvm::StringRef plain = name;
  plain.consume_front("std/");
  std::vector<std::string> known = names();
  for (const LibraryFile &file : libraryFiles())
    known.push_back(file.name.drop_back(7).str());
  if (llvm::is_contained(known, plain.str()))
    return "";
  llvm::StringRef near = nearest(plain, std::vector<llvm::StringRef>(known.begin(), known.end()));
  return fmt::format("the library has no schedule \"{}\"{}", name.str(),
                     near.empty() ? ": `sluice list` shows what it has" : ": " + near.str() + "?");
}

} // namespace sluice::tool
