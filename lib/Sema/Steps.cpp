// The `let`s and `require`s of a scope, and what a failed `require` says.
#include "Sema/Evaluate.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice {

bool reads(const Code &code, NodeId node, SlotId slot) {
  return llvm::is_contained(slotsOf(code, node), slot);
}

std::vector<SlotId> slotsOf(const Code &code, NodeId root) {
  std::vector<SlotId> slots;
  std::vector<NodeId> pending = {root};
  while (!pending.empty()) {
    NodeId id = pending.back();
    pending.pop_back();
    if (id == noNode)
      continue;
    const Node &node = code.nodes[id];
    switch (node.op) {
    case NodeOp::Constant:
      break;
    case NodeOp::Slot:
      if (!llvm::is_contained(slots, node.a))
        slots.push_back(node.a);
      break;
    case NodeOp::List:
    case NodeOp::Call:
    case NodeOp::Builtin:
    case NodeOp::Setting:
    case NodeOp::Figure:
    case NodeOp::Measured:
      for (uint32_t i = node.c; i-- > 0;)
        pending.push_back(code.operands[node.b + i]);
      break;
    case NodeOp::Comprehension:
      for (uint32_t i = 4; i-- > 0;)
        pending.push_back(code.operands[node.b + i]);
      break;
    case NodeOp::Conditional:
      pending.insert(pending.end(), {node.c, node.b, node.a});
      break;
    case NodeOp::Not:
    case NodeOp::Negate:
      pending.push_back(node.a);
      break;
    default:
      pending.insert(pending.end(), {node.b, node.a});
    }
  }
  return slots;
}

/// Slots that the expression depends on, through `let`s before it too.
static std::vector<SlotId> slotsBehind(const Code &code, NodeId node, llvm::ArrayRef<CheckedStep> before) {
  std::vector<SlotId> slots = slotsOf(code, node);
  for (size_t i = 0; i < slots.size(); ++i)
    for (const CheckedStep &step : before)
      if (step.kind == CheckedStep::Kind::Let && step.slot == slots[i])
        for (SlotId inner : slotsOf(code, step.value))
          if (!llvm::is_contained(slots, inner))
            slots.push_back(inner);
  return slots;
}

/// Parameters among the slots.
static std::vector<const CheckedParam *> paramsOf(llvm::ArrayRef<SlotId> slots,
                                                  llvm::ArrayRef<CheckedParam> params) {
  std::vector<const CheckedParam *> result;
  for (SlotId slot : slots)
    for (const CheckedParam &param : params)
      if (param.slot == slot)
        result.push_back(&param);
  return result;
}

void Evaluator::suggestForRequire(Finding &finding, size_t failed, llvm::ArrayRef<CheckedStep> steps,
                                  llvm::ArrayRef<CheckedParam> params) {
  // Tried on a copy whose findings nobody reads: each parameter alone, nearest values first.
  Diagnostics unheard;
  std::vector<std::string> suggestions;
  for (const CheckedParam *param :
       paramsOf(slotsBehind(file.code, steps[failed].value, steps.take_front(failed)), params)) {
    if (!slots[param->slot].isPlainInteger())
      continue;
    int64_t given = slots[param->slot].number.num;
    for (int64_t distance = 1; distance <= 64; ++distance) {
      std::vector<std::string> found;
      for (int64_t step : {-distance, distance}) {
        int64_t value;
        if (__builtin_add_overflow(given, step, &value))
          continue;
        Evaluator probe(file, unheard);
        probe.limitWork(0);
        probe.slots = slots;
        probe.lists = lists;
        probe.set(param->slot, value);
        if (value > 0 && probe.run(steps.take_front(failed + 1), {}))
          found.push_back(fmt::format("{} = {}", param->name, value));
      }
      if (!found.empty()) {
        suggestions.push_back(llvm::join(found, " or "));
        break;
      }
    }
  }
  finding.fix.message = suggestions.empty() ? "other values" : llvm::join(suggestions, ", or ");
}

/// Drops findings from `first` on. That the work has no end stays: it is said once a file.
static void unsay(Diagnostics &diagnostics, size_t first) {
  std::vector<Finding> &findings = diagnostics.findings();
  findings.erase(std::remove_if(findings.begin() + static_cast<ptrdiff_t>(first), findings.end(),
                                [](const Finding &finding) { return finding.rule != Rule::TooManyOps; }),
                 findings.end());
}

bool Evaluator::run(llvm::ArrayRef<CheckedStep> steps, llvm::ArrayRef<CheckedParam> params) {
  bool allHold = true;
  std::vector<SlotId> refused; // what failed requirements rest on
  for (size_t i = 0; i < steps.size(); ++i) {
    const CheckedStep &step = steps[i];
    const size_t before = diagnostics.findings().size();
    // A value that cannot be computed from what a requirement refuses is no finding of its own.
    auto fail = [&] {
      allHold = false;
      if (llvm::any_of(slotsBehind(file.code, step.value, steps.take_front(i)),
                       [&](SlotId slot) { return llvm::is_contained(refused, slot); }))
        unsay(diagnostics, before);
    };
    if (step.kind == CheckedStep::Kind::Let) {
      // What depends on a faulty value is silent, so the others can be looked at as well.
      if (slots[step.slot] = eval(step.value); !slots[step.slot])
        fail();
      continue;
    }
    auto holds = evalBoolean(step.value, "a requirement");
    if (holds && *holds)
      continue;
    if (!holds) {
      fail();
      continue;
    }
    allHold = false;
    std::vector<std::string> values;
    for (SlotId slot : slotsOf(file.code, step.value))
      values.push_back(fmt::format("{} = {}", file.code.slotNames[slot], str(slots[slot])));
    Finding &finding = diagnostics.report(
        Rule::RequireFailed, step.span,
        {{"message", step.message}, {"values", values.empty() ? "" : " (" + llvm::join(values, ", ") + ")"}});
    if (!params.empty())
      suggestForRequire(finding, i, steps, params);
    const std::vector<SlotId> behind = slotsBehind(file.code, step.value, steps.take_front(i));
    refused.insert(refused.end(), behind.begin(), behind.end());
  }
  return allHold;
}

} // namespace sluice
