#include "Emit/Columns.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>

namespace sluice {

/// Characters, not bytes.
static size_t widthOf(const std::string &text) {
  return static_cast<size_t>(llvm::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string inColumns(const std::vector<std::vector<std::string>> &rows) {
  std::vector<size_t> widths;
  for (const std::vector<std::string> &row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      widths.resize(std::max(widths.size(), i + 1), 0);
      widths[i] = std::max(widths[i], widthOf(row[i]));
    }
  std::string text;
  for (const std::vector<std::string> &row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - widthOf(row[i]), ' ');
      line += "  " + (i == 0 ? row[i] + blanks : blanks + row[i]);
    }
    text += llvm::StringRef(line).rtrim().str() + "\n";
  }
  return text;
}

} // namespace sluice
