#include "Verify/Verify.h"

#include "Verify/Context.h"

#include "llvm/ADT/STLExtras.h"

namespace sluice {

Copies::Copies(const Program &program) {
  begin.push_back(0);
  for (uint32_t stage = 0; stage < program.stages; ++stage) {
    llvm::append_range(devices, program.devicesOf(stage));
    begin.push_back(static_cast<uint32_t>(devices.size()));
    shared |= count(stage) > 1;
  }
}

bool Copies::isOn(uint32_t stage, uint32_t device) const {
  return llvm::binary_search(devicesOf(stage), device);
}

Verdict verify(const Program &program, const ProgramIndex &index, const CostModel &costs,
               Diagnostics &diagnostics, const SourceManager *sources) {
  const size_t before = diagnostics.findings().size();
  VerifyContext context{program, index, costs, diagnostics, sources, Copies(program)};
  Verdict verdict;
  verifyPlacement(context);
  // Pairs but no placement at all: there is nothing the other families could compare with.
  const bool hasPairs = program.stages > 0 && program.microbatches > 0;
  if (!program.placement.empty() || !hasPairs) {
    verifyPhase(context);
    verifyActivations(context);
    verifyStarts(context);
    verifyCommunication(context);
    verifyOrder(context);
    verdict.complete = !context.hasErrors;
    if (!program.isEvaluation)
      verifyGradients(context);
    verifyVersions(context);
    verifyResidency(context);
    verifyBuffers(context);
    verifyKept(context);
    verifyGradientSets(context);
    verifySizes(context);
  }
  verdict.clean = llvm::none_of(llvm::ArrayRef(diagnostics.findings()).drop_front(before),
                                [](const Finding &found) { return found.severity == Severity::Error; });
  return verdict;
}

} // namespace sluice
