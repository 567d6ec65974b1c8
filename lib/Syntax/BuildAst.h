// Parse tree to syntax tree; private to lib/Syntax.
#pragma once

#include "Support/Diagnostics.h"
#include "Syntax/Ast.h"

#include "SluiceLexer.h"
#include "SluiceParser.h"

namespace sluice {

/// Span of a token of the file whose text lies at `text`.
Span spanOf(const antlr4::Token *token, Span text);

/// The tree of a file that parsed without errors. Numbers that do not fit 64-bit fractions are 106.
ast::File buildAst(grammar::SluiceParser::FileContext &tree, antlr4::CommonTokenStream &tokens,
                   const SourceManager &sources, Span text, Diagnostics &diagnostics);

} // namespace sluice
