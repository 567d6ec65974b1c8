// The settings there are: which block each belongs to, what it takes, and whether it has a meaning yet.
#pragma once

#include "Support/Quantity.h"
#include "Syntax/Ast.h"

#include "llvm/ADT/ArrayRef.h"

namespace sluice {

enum class SettingType : uint8_t {
  Count,      ///< a whole number
  Quantity,   ///< a number of `dimension`; times may also be plain numbers (ticks)
  Word,       ///< one of `words`
  Flag,       ///< no value
  Stages,     ///< `NAME on s, t;`
  LinkBlock,  ///< `link { … }`, `host { … }`, `collective { … }`
  LayerBlock, ///< `layer(l) { … }`
  Range,      ///< `NAME(s) = a..b`
  Edge,       ///< `edge a -> b { … }`
  Tied,       ///< `tied NAME on s, t;`
  Profile,    ///< `NAME from "profile.json";`
  Other,      ///< a form of its own that has no meaning yet
};

struct SettingInfo {
  /// `model`, `layer`, `edge`, `cluster`, `link`, `host`, `collective`, `training`, `queue`, `schedule`
  llvm::StringRef block;
  llvm::StringRef name;
  SettingType type;
  Dimension dimension;
  unsigned maxParameters;
  llvm::ArrayRef<llvm::StringRef> words; ///< Of a word.
  bool isSupported = true;
};

const SettingInfo *findSetting(llvm::StringRef block, llvm::StringRef name);
/// Names of all settings of a block, for suggestions.
std::vector<llvm::StringRef> settingNames(llvm::StringRef block);

/// What a closed form may rest on beside figures and parameters: `balanced`, `tightened`, and the costs of
/// one stage where all are alike.
llvm::ArrayRef<llvm::StringRef> costNames();

} // namespace sluice
