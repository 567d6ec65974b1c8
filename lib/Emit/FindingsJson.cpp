#include "Emit/FindingsJson.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace sluice {

FindingCounts countFindings(llvm::ArrayRef<Finding> findings) {
  FindingCounts counts;
  for (const Finding &finding : findings)
    ++(finding.severity == Severity::Error     ? counts.errors
       : finding.severity == Severity::Warning ? counts.warnings
                                               : counts.notes);
  return counts;
}

static std::string text(llvm::StringRef bytes) { return llvm::json::fixUTF8(bytes); }

static void place(llvm::json::OStream &json, Span span, const SourceManager &sources) {
  if (!span.isValid())
    return;
  Location begin = sources.locate(span.begin), end = sources.locate(span.end);
  json.attribute("file", text(begin.file));
  json.attributeObject("span", [&] {
    json.attribute("line", begin.line);
    json.attribute("column", begin.column);
    json.attribute("end_line", end.line);
    json.attribute("end_column", end.column);
  });
}

static void finding(llvm::json::OStream &json, const Finding &finding, const SourceManager &sources) {
  const RuleInfo &rule = info(finding.rule);
  json.attribute("rule", rule.name);
  json.attribute("number", rule.number);
  json.attribute("severity", name(finding.severity));
  json.attribute("message", text(finding.message));
  place(json, finding.span, sources);
  if (!finding.schedule.empty())
    json.attribute("schedule", text(finding.schedule));
  if (!finding.alsoIn.empty())
    json.attributeArray("also_in", [&] {
      for (const std::string &other : finding.alsoIn)
        json.value(text(other));
    });
  if (finding.device)
    json.attribute("device", *finding.device);
  if (!finding.op.empty())
    json.attribute("op", text(finding.op));
  if (!finding.loops.empty())
    json.attributeObject("loops", [&] {
      for (const LoopIndex &loop : finding.loops)
        json.attribute(loop.name, loop.value);
    });
  if (!finding.instance.empty())
    json.attribute("instance", finding.instance);
  if (!finding.region.empty())
    json.attribute("region", finding.region);
  json.attributeArray("related", [&] {
    for (const Note &note : finding.notes)
      json.object([&] {
        json.attribute("message", text(note.message));
        place(json, note.span, sources);
        if (note.device)
          json.attribute("device", *note.device);
        if (!note.op.empty())
          json.attribute("op", text(note.op));
      });
  });
  if (finding.fix.message.empty())
    return;
  json.attributeObject("fix", [&] {
    json.attribute("message", text(finding.fix.message));
    json.attributeArray("edits", [&] {
      for (const Edit &edit : finding.fix.edits)
        json.object([&] {
          place(json, edit.span, sources);
          json.attribute("text", text(edit.text));
        });
    });
  });
}

static void equivalence(llvm::json::OStream &json, const Equivalence &verdict) {
  json.attribute("verdict", name(verdict.holds));
  json.attribute("reason", text(verdict.reason));
  json.attributeArray("rules", [&] {
    for (Rule rule : verdict.rules)
      json.value(info(rule).name);
  });
  json.attributeArray("not_promised", [&] {
    for (const std::string &item : verdict.notPromised)
      json.value(text(item));
  });
}

std::string findingsJson(llvm::ArrayRef<Finding> findings, llvm::ArrayRef<CheckedInstance> checked,
                         llvm::ArrayRef<FailingSchedule> failing, unsigned allowed,
                         const SourceManager &sources) {
  std::string out;
  llvm::raw_string_ostream stream(out);
  llvm::json::OStream json(stream, 2);
  json.object([&] {
    json.attribute("version", 1);
    json.attributeArray("findings", [&] {
      for (const Finding &entry : findings)
        json.object([&] { finding(json, entry, sources); });
    });
    json.attributeArray("checked", [&] {
      for (const CheckedInstance &instance : checked)
        json.object([&] {
          json.attribute("schedule", text(instance.schedule));
          if (instance.settings > 1)
            json.attribute("settings", static_cast<int64_t>(instance.settings));
          json.attributeObject("parameters", [&] {
            for (const auto &[name, value] : instance.parameters)
              if (int64_t integer; !llvm::StringRef(value).getAsInteger(10, integer))
                json.attribute(text(name), integer);
              else
                json.attribute(text(name), text(value));
          });
          json.attribute("transport", instance.transport);
          json.attribute("communication", instance.communication);
          if (instance.equivalence)
            json.attributeObject("equivalence", [&] { equivalence(json, *instance.equivalence); });
        });
    });
    if (!failing.empty())
      json.attributeArray("failing", [&] {
        for (const FailingSchedule &entry : failing)
          json.object([&] {
            json.attribute("schedule", text(entry.schedule));
            json.attribute("settings", static_cast<int64_t>(entry.settings));
            json.attribute("smallest", text(entry.smallest));
            if (!entry.region.empty())
              json.attribute("region", text(entry.region));
          });
      });
    json.attributeObject("summary", [&] {
      FindingCounts counts = countFindings(findings);
      json.attribute("errors", counts.errors);
      json.attribute("warnings", counts.warnings);
      json.attribute("notes", counts.notes);
      json.attribute("allowed", allowed);
    });
  });
  stream << '\n';
  return stream.str();
}

} // namespace sluice
