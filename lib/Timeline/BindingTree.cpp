#include "Timeline/BindingTree.h"

#include <algorithm>

namespace sluice {

BindingTree::BindingTree(const Program &program, const Bindings &bindings)
    : bindings(bindings), nodes(program.size()) {
  for (OpId op = 0; op < program.size(); op = program.groupEnd(op))
    addChain(op);
}

// Parents before children: the chain is followed up to a node that exists and made from there down.
void BindingTree::addChain(OpId op) {
  while (nodes[op].parent == noOp) {
    Binding binding = bindings.of(op);
    if (binding.op == noOp) {
      nodes[op] = {op, op, 0, binding.transfer};
      break;
    }
    pending.emplace_back(op, binding);
    op = binding.op;
  }
  for (; !pending.empty(); pending.pop_back()) {
    const auto &[child, binding] = pending.back();
    const Node &parent = nodes[binding.op];
    const Node &ancestor = nodes[parent.jump];
    const int64_t moved =
        bindings.isMove(binding.op) ? bindings.end(binding.op) - bindings.start(binding.op) : 0;
    // Two jumps of equal length become one of twice that and one step.
    const bool joins = parent.depth - ancestor.depth == ancestor.depth - nodes[ancestor.jump].depth;
    nodes[child] = {binding.op, joins ? ancestor.jump : binding.op, parent.depth + 1,
                    parent.transferred + moved + binding.transfer};
  }
}

int64_t BindingTree::transferSince(int64_t from, OpId last) const {
  if (bindings.start(last) <= from)
    return 0;
  // The first op of the chain that starts after `from`: what leads to it covers `from`.
  OpId first = last;
  while (true) {
    const Node &node = nodes[first];
    if (node.jump != first && bindings.start(node.jump) > from)
      first = node.jump;
    else if (node.parent != first && bindings.start(node.parent) > from)
      first = node.parent;
    else
      break;
  }
  const OpId parent = nodes[first].parent;
  const int64_t transfer = nodes[first].transferred - (parent == first ? 0 : nodes[parent].transferred);
  return nodes[last].transferred - nodes[first].transferred +
         std::min(transfer, bindings.start(first) - from);
}

} // namespace sluice
