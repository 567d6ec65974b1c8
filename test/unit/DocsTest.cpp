// Examples of the guides under docs/. A block marked `sluice` is a file of its own: it parses and is clean,
// or says `// error` in its first line and gets one. A block marked `sluice-fragment` is not run.
#include "Documents.h"

#include "Emit/TransportTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <gtest/gtest.h>

namespace sluice::test {

static std::vector<std::string> documents() {
  std::vector<std::string> names;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator entry(SLUICE_DOCS, error), end; entry != end && !error;
       entry.increment(error))
    if (llvm::sys::path::extension(entry->path()) == ".md")
      names.push_back(llvm::sys::path::filename(entry->path()).str());
  llvm::sort(names);
  return names;
}

TEST(Docs, ExamplesAreCleanUnlessTheySayOtherwise) {
  unsigned examples = 0;
  for (const std::string &name : documents())
    for (const FencedBlock &block : fencedBlocks(readDocument(name))) {
      if (block.language != "sluice")
        continue;
      ++examples;
      SCOPED_TRACE(name + ":" + std::to_string(block.line));
      CheckedText checked = checkText(block, 1'000'000);
      bool hasErrors = llvm::any_of(
          checked.findings, [](const Finding &finding) { return finding.severity == Severity::Error; });
      if (llvm::StringRef(block.text).starts_with("// error"))
        EXPECT_TRUE(hasErrors);
      else
        EXPECT_TRUE(checked.findings.empty()) << checked.output;
    }
  EXPECT_GE(examples, 12u) << "the guides have lost their examples";
}

TEST(Docs, TransportsAreThoseOfExplain) {
  EXPECT_NE(readDocument("language.md").find(transportTable()), std::string::npos) << transportTable();
}

} // namespace sluice::test
