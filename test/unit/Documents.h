// What the tests of the documentation share: fenced blocks of a Markdown text, and `sluice check` of one.
#pragma once

#include "Support/Diagnostics.h"

namespace sluice::test {

/// A block between lines of three backticks. Its last line ends in '\n'.
struct FencedBlock {
  std::string language; ///< What follows the opening backticks: `sluice`, `text`.
  std::string text;
  unsigned line; ///< Of the opening backticks, from 1.
};
/// In order; a block that is not closed ends with the text.
std::vector<FencedBlock> fencedBlocks(llvm::StringRef markdown);

struct CheckedText {
  std::vector<Finding> findings;
  std::string output; ///< What `sluice check pipeline.sluice` prints when it finds something.
};
/// Checks a block under that name, or `pipeline.json` if that is its language, with its parameters at their
/// defaults, and at most `maxOps` ops.
CheckedText checkText(const FencedBlock &block, uint64_t maxOps);

/// The text of a file below docs/; a test failure if there is none.
std::string readDocument(llvm::StringRef path);

} // namespace sluice::test
