#include "Emit/TextTable.h"

#include <algorithm>
#include <cassert>
#include <fmt/format.h>

namespace sluice {

void TextTable::addRow(uint32_t number, std::vector<std::string> cells) {
  assert(cells.size() + 1 == headings.size() && "a cell a heading");
  if (!rows.empty() && rows.back().last + 1 == number && rows.back().cells == cells)
    rows.back().last = number;
  else
    rows.push_back({number, number, std::move(cells)});
}

std::string TextTable::text() const {
  auto number = [](const Row &row) {
    return row.first == row.last ? std::to_string(row.first) : fmt::format("{}..{}", row.first, row.last);
  };
  std::vector<size_t> widths;
  for (size_t column = 0; column < headings.size(); ++column) {
    size_t width = headings[column].size();
    for (const Row &row : rows)
      width = std::max(width, column == 0 ? number(row).size() : row.cells[column - 1].size());
    widths.push_back(width);
  }
  std::string result = fmt::format("  {:<{}}", headings[0], widths[0]);
  for (size_t column = 1; column < headings.size(); ++column)
    result += fmt::format("  {:>{}}", headings[column], widths[column]);
  result += "\n";
  for (const Row &row : rows) {
    result += fmt::format("  {:<{}}", number(row), widths[0]);
    for (size_t column = 1; column < headings.size(); ++column)
      result += fmt::format("  {:>{}}", row.cells[column - 1], widths[column]);
    result += "\n";
  }
  return result;
}

} // namespace sluice
