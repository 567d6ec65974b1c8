// What each transport stands for, as `sluice explain transport` prints it and docs/language.md shows it.
#pragma once

#include <string>

namespace sluice {

/// A table in Markdown, a row a transport, and a sentence for each.
std::string transportTable();

} // namespace sluice
