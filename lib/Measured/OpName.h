// What the name of an event in a trace says: the text of an op, of a row of an executor, or of a message.
#pragma once

#include "IR/Program.h"

#include <optional>

namespace sluice {

/// `forward(0, 3)`, `start reduce(0)`, `wait recv_activation(1, 3)`, `norm`, `load(0, 3)`. Stages and
/// microbatches below 0: the name has none.
struct OpName {
  std::string word; ///< `forward`, also of rows that are no ops of the language, such as `load`.
  std::optional<OpKind> kind;
  bool isWait = false;
  int64_t stage = -1, microbatch = -1;
  /// Of a send or receive over a skip edge, and of a modeled message over one: the other stage.
  int64_t peer = -1;

  /// Whether it can be the name of `op`; what the name leaves out does not count.
  bool isOf(const Op &op) const;
};

/// Whether a row stands for a part of the op of the row behind it: `load` of the first stage's forward,
/// `loss` of the last stage's backward, which are no ops of the language.
bool isPartOf(const OpName &row, const OpName &behind);

/// The names of all members of `forward(0, 3) & backward(2, 1)`, or the only one.
std::vector<OpName> parseOpNames(llvm::StringRef text);

} // namespace sluice
