// What an op says beside its stage and microbatch, as one word: `keep input`, `start`, `overwrite`. The same
// list for what JSON writes and what it reads. Bits of Op::flags mean different things for different kinds,
// so a word has the kinds it belongs to.
#pragma once

#include "IR/Program.h"

namespace sluice {

struct OpWord {
  llvm::StringRef text;
  OpFlag flag;
  bool (*isOf)(const Op &op); ///< Whether ops of this kind take it.

  bool isSaidBy(const Op &op) const { return (op.flags & flag) && isOf(op); }
};
llvm::ArrayRef<OpWord> opWords();

/// The flags that make an op a member of an overlap or a group; every other one is a word.
inline constexpr uint8_t memberFlags = OverlapFirst | OverlapFollower | GroupFirst | GroupFollower;

} // namespace sluice
