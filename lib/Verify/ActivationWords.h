// What became of an activation that an op finds unusable, in words and with the op that did it. Internal to
// lib/Verify; only reached when something is wrong.
#pragma once

#include "Verify/Activations.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace sluice {

/// The last op before `id` on its device that works on the same pair and satisfies `isWanted`; noOp if there
/// is none.
OpId lastBefore(const VerifyContext &context, OpId id, llvm::function_ref<bool(const Op &)> isWanted);

struct Loss {
  std::string words; ///< `dropped since line 7`
  std::string note;  ///< What to say at `op`.
  OpId op = noOp;    ///< noOp: no op did it.
};
/// By Fault::cause, the state met. `preposition` leads to the line: an activation *is* dropped *since* it, an
/// input *was* dropped *at* it.
Loss lossOf(const VerifyContext &context, const Fault &fault, llvm::StringRef preposition);

/// `recompute(0, 3)` of the pair of a fault.
std::string opOf(OpKind kind, const Fault &fault);

} // namespace sluice
