// 705 gradients-kept-apart: under `contributions = separate` an accumulator holds a set of gradients for each
// contribution until its reduction, where one set that all are added to would do.
#include "IR/GradientSets.h"

#include "Verify/Faults.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

namespace {

/// One copy of a stage: its sets now, and the op that made most of them.
struct Copy {
  GradientSets sets;
  uint32_t most = 1;
  OpId op = noOp;
};

} // namespace

void verifyGradientSets(VerifyContext &context) {
  const Program &program = context.program;
  if (!context.costs.keepsContributions || context.hasErrors)
    return;
  const bool hasZero = llvm::any_of(program.ops, [](const Op &op) { return op.kind == OpKind::Zero; });
  std::vector<Fault> faults;
  std::vector<uint32_t> counts; // per stage, the most over its copies
  counts.assign(program.stages, 1);
  for (uint32_t device = 0; device < program.devices; ++device) {
    std::vector<Copy> copies(program.stages);
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
      const Op &op = program.ops[id];
      if (op.kind >= OpKind::ReduceTied)
        continue;
      Copy &copy = copies[op.stage];
      copy.sets.begin(op);
      if (copy.sets.count() > copy.most) {
        copy.most = copy.sets.count();
        copy.op = id;
      }
      copy.sets.end(op, hasZero);
    }
    for (uint32_t stage = 0; stage < program.stages; ++stage)
      if (copies[stage].op != noOp) {
        counts[stage] = std::max(counts[stage], copies[stage].most);
        faults.push_back({Rule::GradientsKeptApart, 0, device, stage, noMicrobatch, copies[stage].op});
      }
  }
  for (const FaultGroup &group : groupByLine(context, faults)) {
    const uint32_t stage = group.front().stage;
    Finding &finding =
        report(context, group, {{"stage", std::to_string(stage)}, {"count", std::to_string(counts[stage])}});
    if (auto declared = context.costs.declaredAt.find("contributions");
        declared != context.costs.declaredAt.end())
      finding.notes.push_back({"they are kept apart by this", declared->second, {}, ""});
    noteOthers(context, group, false, finding);
    finding.fix.message = "contributions = accumulated;";
  }
}

} // namespace sluice
