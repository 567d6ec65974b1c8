#include "Formats/OpWords.h"

namespace sluice {

llvm::ArrayRef<OpWord> opWords() {
  static constexpr OpWord words[] = {
      {"keep input", KeepInput,
       [](const Op &op) { return op.kind == OpKind::Forward || op.kind == OpKind::Drop; }},
      {"keep nothing", KeepNothing, [](const Op &op) { return op.kind == OpKind::Forward; }},
      {"replay", Replay, [](const Op &op) { return op.kind == OpKind::Recompute; }},
      {"overwrite", Overwrite, [](const Op &op) { return op.contributes(); }},
      {"start", Started, [](const Op &op) { return op.mayStart(); }},
      {"wait", Waits, [](const Op &op) { return op.mayStart(); }},
      {"local", Local, [](const Op &op) { return op.kind == OpKind::Norm; }},
  };
  return words;
}

} // namespace sluice
