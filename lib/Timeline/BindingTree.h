// All binding chains of a timeline at once: a tree in which the parent of an op is its binding
// prerequisite. It answers how much of a stretch of a chain lies under transfers in logarithmic time, where
// walking the chain would take a step an op. Each op has one jump pointer to an ancestor (Myers, "An
// applicative random-access stack", 1983). 24 bytes an op.
#pragma once

#include "Timeline/Binding.h"

namespace sluice {

class BindingTree {
public:
  /// Keeps a reference to `bindings`. Linear in the ops.
  BindingTree(const Program &program, const Bindings &bindings);

  /// Time under transfers, collectives and host moves between `from` and the start of the op or overlap that
  /// begins at `last`, along the chain that leads there.
  int64_t transferSince(int64_t from, OpId last) const;

private:
  struct Node {
    OpId parent = noOp; // itself: waits for no op; noOp: not yet made
    OpId jump = noOp;
    uint32_t depth = 0;
    int64_t transferred = 0; // along the chain from time 0 to the op's start
  };
  void addChain(OpId op);

  const Bindings &bindings;
  std::vector<Node> nodes; // by first op of an overlap
  std::vector<std::pair<OpId, Binding>> pending;
};

} // namespace sluice
