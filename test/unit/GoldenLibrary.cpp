#include "GoldenLibrary.h"

#include "Std/LibraryText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <map>
#include <set>

namespace sluice::golden {

bool Compiled::hasErrors() const {
  return llvm::any_of(findings, [](const Finding &finding) { return finding.severity == Severity::Error; });
}

Compiled compile(const std::string &text, Compilation::Depth depth) {
  SourceManager sources;
  FileLoader loader(sources);
  Compilation compilation(sources, loader);
  Diagnostics diagnostics;
  Compiled compiled;
  if (compilation.load(*sources.addFile("golden.sluice", text), diagnostics))
    compilation.run({}, {}, depth, diagnostics, [&](Instance &instance) {
      if (!instance.isCompiled)
        return;
      compiled.program = std::move(instance.program);
      compiled.figures = std::move(instance.figures);
    });
  diagnostics.finish();
  compiled.findings = diagnostics.findings();
  for (const Finding &finding : compiled.findings)
    compiled.text += std::to_string(info(finding.rule).number) + " " + finding.message + "\n";
  return compiled;
}

/// File of each schedule of the library.
static std::map<std::string, std::string> filesOfSchedules() {
  std::map<std::string, std::string> files;
  for (const LibraryFile &file : libraryFiles()) {
    llvm::SmallVector<llvm::StringRef> lines;
    file.text.split(lines, '\n');
    for (llvm::StringRef line : lines)
      if (line.consume_front("schedule "))
        files[line.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; }).str()] =
            file.name.drop_back(llvm::StringRef(".sluice").size()).str();
  }
  return files;
}

std::string importsOf(const std::string &call) {
  static const std::map<std::string, std::string> files = filesOfSchedules();
  std::set<std::string> imports;
  for (llvm::StringRef rest = call; !rest.empty();) {
    llvm::StringRef word = rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    if (auto file = files.find(word.str()); file != files.end())
      imports.insert("import \"std/" + file->second + "\";\n");
    rest = rest.drop_front(std::max<size_t>(1, word.size()));
  }
  return llvm::join(imports, "");
}

} // namespace sluice::golden
