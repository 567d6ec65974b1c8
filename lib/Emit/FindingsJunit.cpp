#include "Emit/FindingsJunit.h"

#include "Emit/FindingsText.h"
#include "Emit/SvgRows.h"

#include "llvm/Support/JSON.h"

#include <fmt/format.h>
#include <map>

namespace sluice {

/// As text or attribute of XML 1.0, which has no code for most control characters.
static std::string printable(llvm::StringRef bytes) {
  std::string result = llvm::json::fixUTF8(bytes);
  for (char &c : result)
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t')
      c = ' ';
  return escaped(result);
}

namespace {
struct Suite {
  std::string cases;
  unsigned tests = 0, failures = 0;
};
} // namespace

static void addFinding(const Finding &finding, const std::string &file, bool fails,
                       const SourceManager &sources, Suite &suite) {
  const RuleInfo &rule = info(finding.rule);
  const unsigned line = finding.span.isValid() ? sources.locate(finding.span.begin).line : 0;
  std::string name = fmt::format("{} {}", rule.number, rule.name.str());
  if (line > 0)
    name += fmt::format(" at line {}", line);
  if (!finding.op.empty())
    name += ", " + finding.op;
  const std::string body = printable(findingsText(finding, sources));
  suite.cases +=
      fmt::format("    <testcase classname=\"{}\" name=\"{}\">\n", printable(file), printable(name));
  if (fails)
    suite.cases += fmt::format("      <failure type=\"{}\" message=\"{}\">{}</failure>\n", rule.name.str(),
                               printable(finding.message), body);
  else
    suite.cases += fmt::format("      <system-out>{}</system-out>\n", body);
  suite.cases += "    </testcase>\n";
  ++suite.tests;
  suite.failures += fails;
}

std::string findingsJunit(llvm::ArrayRef<Finding> findings, llvm::ArrayRef<CleanCase> clean,
                          Severity threshold, const SourceManager &sources) {
  std::map<std::string, Suite> suites;
  for (const Finding &finding : findings) {
    const std::string file = finding.span.isValid() ? sources.locate(finding.span.begin).file.str() : "";
    addFinding(finding, file, finding.severity >= threshold, sources, suites[file]);
  }
  for (const CleanCase &each : clean) {
    Suite &suite = suites[each.file];
    suite.cases += fmt::format("    <testcase classname=\"{}\" name=\"{}\"/>\n", printable(each.file),
                               printable(each.name));
    ++suite.tests;
  }
  unsigned tests = 0, failures = 0;
  std::string body;
  for (const auto &[file, suite] : suites) {
    tests += suite.tests;
    failures += suite.failures;
    body += fmt::format("  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\">\n{}  </testsuite>\n",
                        printable(file), suite.tests, suite.failures, suite.cases);
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"sluice check\" tests=\"{}\" "
      "failures=\"{}\">\n{}</testsuites>\n",
      tests, failures, body);
}

} // namespace sluice
