#include "Verify/Gradients.h"

#include "llvm/ADT/STLExtras.h"

namespace sluice {

GradientTerms::GradientTerms(const Program &program, const CostModel &costs)
    : isAsynchronous(costs.asynchronous), replicas(costs.replicas) {
  for (const Op &op : program.ops) {
    hasUpdates |= op.kind == OpKind::Update;
    hasReductions |= op.kind == OpKind::Reduce;
  }
}

std::optional<int64_t> GradientTerms::members(uint32_t copies) const {
  if (!replicas)
    return std::nullopt;
  return *replicas * copies;
}

namespace {

/// The gradient of one stage on the device being walked. Counts start again at each update.
struct Accumulator {
  uint64_t pending = 0;     ///< Contributions since the last update.
  uint64_t covered = 0;     ///< Those of them that the last reduction found.
  OpId reduction = noOp;    ///< The last one since the last update.
  OpId leavingOut = noOp;   ///< A reduction since the last update that contributions have followed.
  OpId contribution = noOp; ///< The last one.
  OpId firstUpdate = noOp, lastUpdate = noOp;
  uint64_t late = 0; ///< Contributions behind the first update.
  bool isTouched = false;
};

class GradientWalk {
public:
  GradientWalk(const Program &program, const CostModel &costs, const Copies &copies)
      : program(program), copies(copies), terms(program, costs), accumulators(program.stages) {}
  std::vector<Fault> run();

private:
  Accumulator &touch(uint32_t stage);
  void contribute(OpId id);
  void reduce(OpId id);
  void update(OpId id);
  void checkCoverage(const Accumulator &accumulator, uint32_t stage);
  void finish(uint32_t stage);
  void fault(Rule rule, uint32_t stage, OpId op, OpId other = noOp) {
    faults.push_back({rule, 0, device, stage, noMicrobatch, op, other});
  }

  const Program &program;
  const Copies &copies;
  const GradientTerms terms;
  uint32_t device = 0;
  std::vector<Accumulator> accumulators; // per stage
  std::vector<uint32_t> touched;         // stages with a gradient life on this device
  std::vector<Fault> faults;
};

} // namespace

Accumulator &GradientWalk::touch(uint32_t stage) {
  Accumulator &accumulator = accumulators[stage];
  if (!accumulator.isTouched) {
    accumulator.isTouched = true;
    touched.push_back(stage);
  }
  return accumulator;
}

void GradientWalk::contribute(OpId id) {
  Accumulator &accumulator = touch(program.ops[id].stage);
  ++accumulator.pending;
  accumulator.late += accumulator.firstUpdate != noOp;
  accumulator.contribution = id;
  if (accumulator.leavingOut == noOp)
    accumulator.leavingOut = accumulator.reduction;
}

void GradientWalk::reduce(OpId id) {
  const uint32_t stage = program.ops[id].stage;
  Accumulator &accumulator = touch(stage);
  if (accumulator.covered > 0 && !terms.isIdentity(copies.count(stage)))
    fault(Rule::ReducedTwice, stage, id, accumulator.reduction);
  accumulator.covered = accumulator.pending;
  accumulator.reduction = id;
  // The one reduction of a synchronous step covers all of it; a later one does not make up for it.
  if (terms.isAsynchronous)
    accumulator.leavingOut = noOp;
}

void GradientWalk::update(OpId id) {
  const uint32_t stage = program.ops[id].stage;
  Accumulator &accumulator = touch(stage);
  if (accumulator.pending == 0)
    fault(Rule::EmptyUpdate, stage, id, accumulator.lastUpdate);
  else if (accumulator.reduction == noOp && terms.mustReduce(copies.count(stage)))
    fault(Rule::MissingReduce, stage, id);
  checkCoverage(accumulator, stage);
  accumulator.pending = accumulator.covered = 0;
  accumulator.reduction = accumulator.leavingOut = noOp;
  accumulator.lastUpdate = id;
  if (accumulator.firstUpdate == noOp)
    accumulator.firstUpdate = id;
}

void GradientWalk::checkCoverage(const Accumulator &accumulator, uint32_t stage) {
  if (accumulator.leavingOut != noOp && !terms.isIdentity(copies.count(stage)))
    fault(Rule::ContributionAfterReduce, stage, accumulator.leavingOut);
}

/// What only the end of the device program shows.
void GradientWalk::finish(uint32_t stage) {
  const Accumulator &accumulator = accumulators[stage];
  if (accumulator.late > 0 && !terms.isAsynchronous)
    fault(Rule::UpdateBeforeContribution, stage, accumulator.firstUpdate, accumulator.contribution);
  else if (accumulator.pending > 0 && terms.hasUpdates)
    fault(Rule::MissingUpdate, stage, noOp, accumulator.contribution);
  else
    checkCoverage(accumulator, stage);
}

std::vector<Fault> GradientWalk::run() {
  for (device = 0; device < program.devices; ++device) {
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
      switch (program.ops[id].kind) {
      case OpKind::Backward:
      case OpKind::BackwardWeight:
        contribute(id);
        break;
      case OpKind::Reduce:
        reduce(id);
        break;
      case OpKind::Update:
        update(id);
        break;
      default:
        break;
      }
    }
    for (uint32_t stage : touched) {
      finish(stage);
      accumulators[stage] = {};
    }
    touched.clear();
  }
  return std::move(faults);
}

std::vector<Fault> findGradientFaults(const Program &program, const CostModel &costs, const Copies &copies) {
  return GradientWalk(program, costs, copies).run();
}

} // namespace sluice
