// Settings of training and cluster whose value is one of a few words: the same tables for what a schedule
// file and JSON write, what JSON reads, and what `diff` compares.
#pragma once

#include "IR/CostModel.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace sluice {

struct SettingWords {
  llvm::StringRef name;
  /// The first stands for a setting that is not written; it is empty where that has no word of its own.
  llvm::ArrayRef<llvm::StringRef> words;
  size_t (*get)(const CostModel &costs);      ///< Into `words`.
  void (*set)(CostModel &costs, size_t word); ///< To call with ascending names of a table.

  llvm::StringRef wordOf(const CostModel &costs) const { return words[get(costs)]; }
  bool isSaid(const CostModel &costs) const { return get(costs) != 0; }
};

/// `loss`, `scale`, `microbatch_loss`, `reduction`, `reduced`, `contributions`, `after_reduce`.
llvm::ArrayRef<SettingWords> trainingWords();
/// `channel_key`, `service`, `groups`, `progress`, `connect`: what is said beside CostModel::transport; and
/// `transfers`, `collectives`, which only times depend on.
llvm::ArrayRef<SettingWords> clusterWords();

/// Takes the rules of a transport or channel by its name (`nccl`, `eager(2)`) in place of those of the one
/// named so far; what is written beside it stays. False if there is no such name.
bool setTransport(CostModel &costs, llvm::StringRef name);

} // namespace sluice
