#include "Support/Source.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace sluice {

std::optional<Span> SourceManager::addFile(std::string name, std::string text) {
  uint64_t end = static_cast<uint64_t>(nextBegin) + text.size();
  if (end >= std::numeric_limits<uint32_t>::max())
    return std::nullopt;
  Span span{nextBegin, static_cast<uint32_t>(end)};
  files.emplace_back(std::move(name), std::move(text), nextBegin);
  nextBegin = span.end + 1; // an end offset still belongs to its file
  return span;
}

std::optional<Span> SourceManager::addPlace(std::string name, unsigned line, unsigned column) {
  auto span = addFile(std::move(name), " ");
  if (!span)
    return span;
  files.back().line = line;
  files.back().column = column;
  return span;
}

const SourceManager::File &SourceManager::fileAt(uint32_t offset) const {
  assert(offset != 0 && !files.empty());
  auto after = std::upper_bound(files.begin(), files.end(), offset,
                                [](uint32_t value, const File &file) { return value < file.begin; });
  return *std::prev(after);
}

size_t SourceManager::lineIndex(const File &file, uint32_t local) {
  std::call_once(file.linesKnown, [&] {
    file.lineStarts.push_back(0);
    for (size_t i = 0; i < file.text.size(); ++i)
      if (file.text[i] == '\n')
        file.lineStarts.push_back(static_cast<uint32_t>(i + 1));
  });
  auto after = std::upper_bound(file.lineStarts.begin(), file.lineStarts.end(), local);
  return static_cast<size_t>(after - file.lineStarts.begin()) - 1;
}

Location SourceManager::locate(uint32_t offset) const {
  const File &file = fileAt(offset);
  if (file.line != 0)
    return {file.name, file.line, file.column};
  uint32_t local = offset - file.begin;
  size_t line = lineIndex(file, local);
  return {file.name, static_cast<unsigned>(line + 1), local - file.lineStarts[line] + 1};
}

llvm::StringRef SourceManager::fileText(uint32_t offset) const { return fileAt(offset).text; }

llvm::StringRef SourceManager::text(Span span) const {
  const File &file = fileAt(span.begin);
  return llvm::StringRef(file.text).slice(span.begin - file.begin, span.end - file.begin);
}

llvm::StringRef SourceManager::lineText(uint32_t offset) const {
  const File &file = fileAt(offset);
  size_t line = lineIndex(file, offset - file.begin);
  llvm::StringRef rest = llvm::StringRef(file.text).drop_front(file.lineStarts[line]);
  return rest.take_until([](char c) { return c == '\n'; }).rtrim('\r');
}

} // namespace sluice
