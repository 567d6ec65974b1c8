// A table of numbers for a terminal: a first column of row numbers, right-aligned columns, and neighbouring
// rows of equal content folded into one (`3..17`).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

class TextTable {
public:
  /// Headings from the one of the row numbers on.
  explicit TextTable(std::vector<std::string> headings) : headings(std::move(headings)) {}
  void addColumn(std::string heading) { headings.push_back(std::move(heading)); }
  /// `cells` has one entry a heading after the first. Numbers ascend.
  void addRow(uint32_t number, std::vector<std::string> cells);
  /// Lines indented by two, ended by '\n'. Cells are ASCII.
  std::string text() const;

private:
  struct Row {
    uint32_t first, last;
    std::vector<std::string> cells;
  };
  std::vector<std::string> headings;
  std::vector<Row> rows;
};

} // namespace sluice
