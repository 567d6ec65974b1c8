// Source text to syntax tree. The only door to the generated parser: ANTLR headers, its exceptions and its
// parse trees stay behind it.
#pragma once

#include "Support/Diagnostics.h"
#include "Syntax/Ast.h"

namespace sluice {

/// Parses the file that `sources` holds at `text`. Syntax errors (101) are reported, as many as the text
/// has; then nothing is returned. Brackets, expressions and branches are limited (256 levels, 1024
/// operators, 1024 `else if`s) with a finding, so that no input exhausts the stack.
std::optional<ast::File> parse(const SourceManager &sources, Span text, Diagnostics &diagnostics);

} // namespace sluice
