#include "Emit/FindingsGithub.h"

#include "Emit/FindingsText.h"

#include <fmt/format.h>

namespace sluice {

/// What would end the command or one of its properties stands as its code.
static std::string escaped(llvm::StringRef text, bool isProperty) {
  std::string result;
  for (char c : text)
    if (c == '%' || c == '\r' || c == '\n' || (isProperty && (c == ':' || c == ',')))
      result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    else
      result += c;
  return result;
}

static std::string placeOf(Span span, const SourceManager &sources) {
  if (!span.isValid())
    return "";
  const Location begin = sources.locate(span.begin), end = sources.locate(span.end);
  std::string place =
      fmt::format("file={},line={},endLine={},", escaped(begin.file, true), begin.line, end.line);
  if (begin.line == end.line) // columns are of one line
    place += fmt::format("col={},endColumn={},", begin.column, end.column);
  return place;
}

std::string findingsGithub(llvm::ArrayRef<Finding> findings, const SourceManager &sources) {
  std::string out;
  for (const Finding &finding : findings) {
    const char *command = finding.severity == Severity::Error     ? "error"
                          : finding.severity == Severity::Warning ? "warning"
                                                                  : "notice";
    std::string words = finding.message;
    if (finding.device)
      words += fmt::format("\ndevice {}", *finding.device);
    for (const Note &note : finding.notes) {
      words += "\nnote: " + note.message;
      if (note.span.isValid()) {
        const Location place = sources.locate(note.span.begin);
        words += fmt::format(" ({}:{})", place.file.str(), place.line);
      }
    }
    words += closingLines(finding);
    const RuleInfo &rule = info(finding.rule);
    out +=
        fmt::format("::{} {}title={}::{}\n", command, placeOf(finding.span, sources),
                    escaped(fmt::format("{} {}", rule.number, rule.name.str()), true), escaped(words, false));
  }
  return out;
}

} // namespace sluice
