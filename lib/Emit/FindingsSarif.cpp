#include "Emit/FindingsSarif.h"

#include "Emit/FindingsText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace sluice {

namespace {

std::string utf8(llvm::StringRef bytes) { return llvm::json::fixUTF8(bytes); }

/// A path as the reference of a URI: what RFC 3986 does not let stand in one is escaped.
std::string uriOf(llvm::StringRef path) {
  static constexpr llvm::StringLiteral plain = "-._~/!$&'()*+,;=@";
  std::string uri;
  for (char c : path)
    uri += llvm::isAlnum(c) || plain.contains(c) ? std::string(1, c)
                                                 : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return uri;
}

/// Of a line: columns of SARIF count characters, those of a Location bytes.
unsigned characters(llvm::StringRef line, unsigned column) {
  unsigned count = 1;
  for (char c : line.take_front(column - 1))
    count += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return count;
}

class Writer {
public:
  Writer(llvm::ArrayRef<Finding> findings, const SourceManager &sources)
      : findings(findings), sources(sources), stream(text), json(stream, 2) {
    for (const Finding &finding : findings)
      if (!llvm::is_contained(rules, finding.rule))
        rules.push_back(finding.rule);
    llvm::sort(rules);
  }

  std::string run() {
    json.object([&] {
      json.attribute("$schema", "https://json.schemastore.org/sarif-2.1.0.json");
      json.attribute("version", "2.1.0");
      json.attributeArray("runs", [&] {
        json.object([&] {
          tool();
          json.attribute("columnKind", "unicodeCodePoints");
          json.attributeArray("results", [&] {
            for (const Finding &finding : findings)
              json.object([&] { result(finding); });
          });
        });
      });
    });
    stream << '\n';
    return std::move(text);
  }

private:
  static llvm::StringRef level(Severity severity) {
    return severity == Severity::Error ? "error" : severity == Severity::Warning ? "warning" : "note";
  }
  void message(llvm::StringRef key, llvm::StringRef words) {
    json.attributeObject(key, [&] { json.attribute("text", utf8(words)); });
  }

  void tool() {
    json.attributeObject("tool", [&] {
      json.attributeObject("driver", [&] {
        json.attribute("name", "sluice");
        json.attributeArray("rules", [&] {
          for (Rule rule : rules)
            json.object([&] {
              json.attribute("id", info(rule).name);
              json.attribute("name", info(rule).identifier);
              message("shortDescription", info(rule).message);
              message("help", fmt::format("sluice explain {}", info(rule).number));
              json.attributeObject("defaultConfiguration",
                                   [&] { json.attribute("level", level(info(rule).severity)); });
            });
        });
      });
    });
  }

  void region(llvm::StringRef key, Span span) {
    const Location begin = sources.locate(span.begin), end = sources.locate(span.end);
    json.attributeObject(key, [&] {
      json.attribute("startLine", begin.line);
      json.attribute("startColumn", characters(sources.lineText(span.begin), begin.column));
      json.attribute("endLine", end.line);
      json.attribute("endColumn", characters(sources.lineText(span.end), end.column));
    });
  }
  void artifact(Span span) {
    json.attributeObject("artifactLocation",
                         [&] { json.attribute("uri", uriOf(utf8(sources.locate(span.begin).file))); });
  }
  void location(Span span, std::optional<uint32_t> device, llvm::StringRef op) {
    json.attributeObject("physicalLocation", [&] {
      artifact(span);
      region("region", span);
    });
    if (!device && op.empty())
      return;
    json.attributeArray("logicalLocations", [&] {
      json.object([&] {
        const std::string on = device ? fmt::format("device {}", *device) : "";
        json.attribute("fullyQualifiedName", utf8(op.empty()   ? on
                                                  : on.empty() ? op.str()
                                                               : on + ": " + op.str()));
      });
    });
  }

  void result(const Finding &finding) {
    json.attribute("ruleId", info(finding.rule).name);
    json.attribute("ruleIndex", llvm::find(rules, finding.rule) - rules.begin());
    json.attribute("level", level(finding.severity));
    std::string words = finding.message;
    for (const Note &note : finding.notes)
      if (!note.span.isValid())
        words += "\nnote: " + note.message;
    words += closingLines(finding);
    message("message", words);
    if (finding.span.isValid())
      json.attributeArray("locations",
                          [&] { json.object([&] { location(finding.span, finding.device, finding.op); }); });
    related(finding);
    fixes(finding.fix);
  }
  void related(const Finding &finding) {
    if (llvm::none_of(finding.notes, [](const Note &note) { return note.span.isValid(); }))
      return;
    json.attributeArray("relatedLocations", [&] {
      int64_t id = 0;
      for (const Note &note : finding.notes)
        if (note.span.isValid())
          json.object([&] {
            json.attribute("id", ++id);
            message("message", note.message);
            location(note.span, note.device, note.op);
          });
    });
  }
  /// Edits file by file, as SARIF wants them.
  void fixes(const Fix &fix) {
    if (fix.edits.empty())
      return;
    std::vector<llvm::StringRef> files;
    for (const Edit &edit : fix.edits)
      if (llvm::StringRef file = sources.locate(edit.span.begin).file; !llvm::is_contained(files, file))
        files.push_back(file);
    json.attributeArray("fixes", [&] {
      json.object([&] {
        message("description", fix.message);
        json.attributeArray("artifactChanges", [&] {
          for (llvm::StringRef file : files)
            json.object([&] { change(fix, file); });
        });
      });
    });
  }
  void change(const Fix &fix, llvm::StringRef file) {
    json.attributeObject("artifactLocation", [&] { json.attribute("uri", uriOf(utf8(file))); });
    json.attributeArray("replacements", [&] {
      for (const Edit &edit : fix.edits)
        if (sources.locate(edit.span.begin).file == file)
          json.object([&] {
            region("deletedRegion", edit.span);
            message("insertedContent", edit.text);
          });
    });
  }

  llvm::ArrayRef<Finding> findings;
  const SourceManager &sources;
  std::vector<Rule> rules; // of the findings, ascending
  std::string text;
  llvm::raw_string_ostream stream;
  llvm::json::OStream json;
};

} // namespace

std::string findingsSarif(llvm::ArrayRef<Finding> findings, const SourceManager &sources) {
  return Writer(findings, sources).run();
}

} // namespace sluice
