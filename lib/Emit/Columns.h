// Rows of text in columns: the first flush left, the others flush right, two blanks between. Cells may hold
// characters beyond ASCII, which count one column each.
#pragma once

#include <string>
#include <vector>

namespace sluice {

/// Each line indented by two and ended by '\n', without blanks at its end. Rows may be shorter than others.
std::string inColumns(const std::vector<std::vector<std::string>> &rows);

} // namespace sluice
