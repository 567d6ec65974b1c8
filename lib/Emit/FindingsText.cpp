#include "Emit/FindingsText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice {

namespace {

class Renderer {
public:
  Renderer(const SourceManager &sources, bool color) : sources(sources), color(color) {}

  void finding(const Finding &finding) {
    static constexpr const char *colors[] = {"\033[36m", "\033[33m", "\033[31m"};
    const RuleInfo &rule = info(finding.rule);
    header(finding.span, paint(colors[static_cast<unsigned>(finding.severity)], name(finding.severity).str()),
           paint("\033[1m", finding.message) + fmt::format(" [{} {}]", rule.name.str(), rule.number));
    excerpt(finding.span, '^');
    where(finding);
    if (!finding.instance.empty())
      out += fmt::format("  {}\n", finding.instance);
    if (!finding.region.empty())
      out += fmt::format("  {}\n", finding.region);
    for (const Note &note : finding.notes) {
      if (!note.span.isValid()) {
        out += fmt::format("  note: {}\n", note.message);
        continue;
      }
      header(note.span, "note", note.message);
      excerpt(note.span, '-');
    }
    if (!finding.fix.message.empty())
      out += fmt::format("  {}: {}\n", paint("\033[32m", "fix"), finding.fix.message);
  }

  std::string out;

private:
  std::string paint(const char *code, const std::string &text) const {
    return color ? code + text + "\033[0m" : text;
  }

  void header(Span span, const std::string &label, const std::string &message) {
    if (span.isValid()) {
      Location location = sources.locate(span.begin);
      out += fmt::format("{}:{}:{}: ", location.file.str(), location.line, location.column);
    }
    out += fmt::format("{}: {}\n", label, message);
  }

  /// The line, and under it the part that the span covers of it. Wide lines (a table's row) are cut
  /// around that part.
  void excerpt(Span span, char mark) {
    if (!span.isValid())
      return;
    Location location = sources.locate(span.begin);
    llvm::StringRef line = sources.lineText(span.begin);
    size_t begin = location.column - 1;
    if (line.trim().empty() || begin > line.size())
      return;
    size_t end = std::max(begin + 1, std::min<size_t>(begin + (span.end - span.begin), line.size()));
    constexpr size_t width = 100;
    std::string before, after;
    if (line.size() > width) {
      size_t from = begin > width / 3 ? begin - width / 3 : 0;
      size_t to = std::min(line.size(), from + width);
      before = from > 0 ? "..." : "";
      after = to < line.size() ? "..." : "";
      line = line.slice(from, to);
      begin -= from;
      end = std::max(begin + 1, std::min(end - from, line.size()));
    }
    // Tabs keep their width in both lines; columns count bytes, carets count characters.
    std::string shown, under;
    for (size_t i = 0; i < line.size() || i < end; ++i) {
      char c = i < line.size() ? line[i] : ' ';
      if (i < line.size())
        shown += c == '\t' ? ' ' : c;
      if ((c & 0xc0) != 0x80)
        under += i < begin || i >= end ? ' ' : mark;
    }
    std::string number = std::to_string(location.line);
    out += fmt::format("  {} | {}{}{}\n", number, before, shown, after);
    out += fmt::format("  {} | {}{}\n", std::string(number.size(), ' '), std::string(before.size(), ' '),
                       llvm::StringRef(under).rtrim().str());
  }

  void where(const Finding &finding) {
    std::vector<std::string> parts;
    if (!finding.schedule.empty())
      parts.push_back("schedule " + finding.schedule);
    for (const std::string &other : finding.alsoIn)
      parts.push_back("schedule " + other);
    if (finding.device)
      parts.push_back(fmt::format("device {}", *finding.device));
    if (!finding.op.empty())
      parts.push_back(finding.op);
    for (const LoopIndex &loop : finding.loops)
      parts.push_back(fmt::format("{} = {}", loop.name, loop.value));
    if (!parts.empty())
      out += "  in " + llvm::join(parts, ", ") + "\n";
  }

  const SourceManager &sources;
  bool color;
};

} // namespace

std::string closingLines(const Finding &finding) {
  std::string words;
  for (const std::string &line : {finding.instance, finding.region})
    if (!line.empty())
      words += "\n" + line;
  if (!finding.fix.message.empty())
    words += "\nfix: " + finding.fix.message;
  return words;
}

std::string findingsText(llvm::ArrayRef<Finding> findings, const SourceManager &sources,
                         const FindingsTextOptions &options) {
  Renderer renderer(sources, options.color);
  size_t shown = options.most == 0 ? findings.size() : std::min<size_t>(findings.size(), options.most);
  for (const Finding &finding : findings.take_front(shown))
    renderer.finding(finding);
  if (shown < findings.size())
    renderer.out += fmt::format("... and {} more findings\n", findings.size() - shown);
  return renderer.out;
}

} // namespace sluice
