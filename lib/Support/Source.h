// Source texts and places in them. All files of a run share one offset space, so a Span is two 32-bit
// offsets; the manager turns one into file, line and column (both from 1, columns in bytes).
#pragma once

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// Half-open range of offsets; {0, 0} is nowhere.
struct Span {
  uint32_t begin = 0;
  uint32_t end = 0;

  bool isValid() const { return end != 0; }
  friend bool operator==(Span, Span) = default;
};

/// The span from the first of `a` to the last of `b`.
inline Span join(Span a, Span b) { return {a.begin, b.end}; }

struct Location {
  llvm::StringRef file;
  unsigned line = 0, column = 0;
};

/// Once all files are in, threads may share one.
class SourceManager {
public:
  /// Takes over `text`. `name` is what findings show. Nothing if the offset space (4 GiB) is used up.
  std::optional<Span> addFile(std::string name, std::string text);

  /// A place in a text that is not at hand (a line of C++ that built a schedule): it has a location, but
  /// no excerpt.
  std::optional<Span> addPlace(std::string name, unsigned line, unsigned column);

  /// Where `offset` lies. A valid offset always belongs to one file.
  Location locate(uint32_t offset) const;
  /// Text of the whole file that holds `offset`.
  llvm::StringRef fileText(uint32_t offset) const;
  llvm::StringRef text(Span span) const;
  /// The line that holds `offset`, without its end.
  llvm::StringRef lineText(uint32_t offset) const;

private:
  struct File {
    File(std::string name, std::string text, uint32_t begin)
        : name(std::move(name)), text(std::move(text)), begin(begin) {}

    std::string name, text;
    uint32_t begin;
    unsigned line = 0, column = 0;            // of a place without text; 0 for files
    mutable std::vector<uint32_t> lineStarts; // made on first use: most files are never located
    mutable std::once_flag linesKnown;
  };
  const File &fileAt(uint32_t offset) const;
  static size_t lineIndex(const File &file, uint32_t local);

  std::deque<File> files; // stable addresses: spans and StringRefs point into texts
  uint32_t nextBegin = 1; // offset 0 is "nowhere"
};

} // namespace sluice
