#include "Documents.h"

#include "Driver/Compilation.h"
#include "Emit/FindingsJson.h"
#include "Emit/FindingsText.h"

#include "llvm/Support/MemoryBuffer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace sluice::test {

std::vector<FencedBlock> fencedBlocks(llvm::StringRef markdown) {
  std::vector<FencedBlock> blocks;
  bool isOpen = false;
  for (unsigned line = 1; !markdown.empty(); ++line) {
    auto [text, rest] = markdown.split('\n');
    markdown = rest;
    if (text.consume_front("```")) {
      isOpen = !isOpen;
      if (isOpen)
        blocks.push_back({text.str(), "", line});
    } else if (isOpen) {
      blocks.back().text += text.str() + "\n";
    }
  }
  return blocks;
}

static std::string plural(unsigned count, const char *word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

/// The one profile that documents name is that of docs/examples.
class DocumentLoader : public FileLoader {
public:
  explicit DocumentLoader(SourceManager &sources) : FileLoader(sources), sources(sources) {}

  Result read(llvm::StringRef path, llvm::StringRef from) override {
    if (path != "profile.json")
      return FileLoader::read(path, from);
    return {*sources.addFile(path.str(), readDocument("examples/profile.json")), ""};
  }

private:
  SourceManager &sources;
};

CheckedText checkText(const FencedBlock &block, uint64_t maxOps) {
  SourceManager sources;
  DocumentLoader loader(sources);
  Compilation compilation(sources, loader);
  Diagnostics diagnostics;
  CompileOptions options;
  options.elaborate.maxOps = maxOps;
  if (compilation.load(loader.addSchedule("pipeline." + block.language, block.text).text, diagnostics))
    compilation.run({}, options, Compilation::Depth::Expectations, diagnostics, [](Instance &) {});
  diagnostics.finish();
  FindingCounts counts = countFindings(diagnostics.findings());
  std::string output = findingsText(diagnostics.findings(), sources) +
                       fmt::format("{}, {}, {}\n", plural(counts.errors, "error"),
                                   plural(counts.warnings, "warning"), plural(counts.notes, "note"));
  return {diagnostics.findings(), std::move(output)};
}

std::string readDocument(llvm::StringRef path) {
  auto file = llvm::MemoryBuffer::getFile(SLUICE_DOCS "/" + path);
  EXPECT_TRUE(file) << path.str();
  return file ? (*file)->getBuffer().str() : "";
}

} // namespace sluice::test
