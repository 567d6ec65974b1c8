#include "Verify/Gradients.h"

#include "Verify/Tied.h"

#include "llvm/Support/Compiler.h"

#include "llvm/ADT/STLExtras.h"

namespace sluice {

/// Some contribution overwrites. The flag means another thing for other kinds, but is rare for all of them.
static bool hasOverwrites(const Program &program) {
  uint8_t flags = 0;
  for (const Op &op : program.ops)
    flags |= op.flags;
  return (flags & Overwrite) && llvm::any_of(program.ops, [](const Op &op) { return op.overwrites(); });
}

GradientTerms::GradientTerms(const Program &program, uint32_t kinds, const CostModel &costs)
    : hasUpdates(kinds & kindBit(OpKind::Update)), hasReductions(kinds & kindBit(OpKind::Reduce)),
      keepsUsed((kinds & kindBit(OpKind::Zero)) || hasOverwrites(program)),
      isAsynchronous(costs.asynchronous), isMean(costs.reductionIsMean), replicas(costs.replicas) {}

std::optional<int64_t> GradientTerms::members(uint32_t copies) const {
  if (!replicas)
    return std::nullopt;
  return *replicas * copies;
}

namespace {

/// The gradient of one stage on the device being walked. Counts start again at each update.
struct Accumulator {
  uint64_t pending = 0;     ///< Contributions since the last update or zero.
  uint64_t covered = 0;     ///< Those of them that the last reduction found.
  OpId reduction = noOp;    ///< The last one since the last update.
  OpId leavingOut = noOp;   ///< A reduction since the last update that contributions have followed.
  OpId contribution = noOp; ///< The last one.
  OpId firstUpdate = noOp, lastUpdate = noOp;
  uint64_t late = 0;        ///< Contributions behind the first update.
  OpId inFlight = noOp;     ///< The start of a reduction that is not waited for yet.
  OpId emptied = noOp;      ///< The last zero, if it has discarded contributions since the last update.
  OpId ontoLeftover = noOp; ///< The step's first contribution, if no zero stands before it.
  bool isCleared = false;   ///< By a zero, so far.
  bool isUsed = false;      ///< It still holds what the last update has used.
  bool isTouched = false;
};

class GradientWalk {
public:
  GradientWalk(const Program &program, const Copies &copies, const Ties &ties, const GradientTerms &terms)
      : program(program), copies(copies), ties(ties), terms(terms), accumulators(program.stages) {}
  std::vector<Fault> run();

private:
  LLVM_ATTRIBUTE_ALWAYS_INLINE Accumulator &touch(uint32_t stage);
  LLVM_ATTRIBUTE_ALWAYS_INLINE void contribute(OpId id);
  LLVM_ATTRIBUTE_ALWAYS_INLINE void add(OpId id, uint32_t stage);
  void addOnto(Accumulator &accumulator, uint32_t stage, OpId id);
  void zero(OpId id, uint32_t stage);
  void reduce(OpId id);
  void reduceTied(OpId id);
  void update(OpId id);
  void use(Accumulator &accumulator, uint32_t stage, OpId id);
  void useAll(OpId id);
  void checkCoverage(const Accumulator &accumulator, uint32_t stage);
  void finish(uint32_t stage);
  void fault(Rule rule, uint32_t stage, OpId op, OpId other = noOp, uint8_t cause = 0) {
    faults.push_back({rule, cause, device, stage, noMicrobatch, op, other});
  }

  const Program &program;
  const Copies &copies;
  const Ties &ties;
  const GradientTerms &terms;
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

/// An op reads or writes the accumulator, which a started reduction may still be at.
void GradientWalk::use(Accumulator &accumulator, uint32_t stage, OpId id) {
  if (accumulator.inFlight == noOp)
    return;
  fault(Rule::GradientInFlight, stage, id, accumulator.inFlight);
  accumulator.inFlight = noOp;
}

/// A norm reads every gradient of the device.
void GradientWalk::useAll(OpId id) {
  for (uint32_t stage : touched)
    use(accumulators[stage], stage, id);
}

void GradientWalk::contribute(OpId id) {
  const Op &op = program.ops[id];
  if (op.overwrites())
    zero(id, op.stage);
  add(id, op.stage);
  for (uint32_t stage : ties.alsoAddsTo(op.stage))
    add(id, stage);
}

void GradientWalk::add(OpId id, uint32_t stage) {
  Accumulator &accumulator = touch(stage);
  if (terms.keepsUsed || accumulator.inFlight != noOp)
    addOnto(accumulator, stage, id);
  ++accumulator.pending;
  accumulator.late += accumulator.firstUpdate != noOp;
  accumulator.contribution = id;
  if (accumulator.leavingOut == noOp)
    accumulator.leavingOut = accumulator.reduction;
}

/// What the accumulator holds already, where that may matter.
void GradientWalk::addOnto(Accumulator &accumulator, uint32_t stage, OpId id) {
  use(accumulator, stage, id);
  if (!terms.keepsUsed)
    return;
  if (accumulator.isUsed) {
    fault(Rule::GradientNotCleared, stage, id, accumulator.lastUpdate);
    accumulator.isUsed = false; // once is enough
  } else if (!accumulator.isCleared && accumulator.ontoLeftover == noOp && accumulator.firstUpdate == noOp) {
    accumulator.ontoLeftover = id;
  }
  // Without an update in the file only what is added behind shows that the step was not over.
  if (!terms.hasUpdates && accumulator.emptied != noOp) {
    fault(Rule::ContributionLost, stage, accumulator.emptied);
    accumulator.emptied = noOp;
  }
}

void GradientWalk::zero(OpId id, uint32_t stage) {
  Accumulator &accumulator = touch(stage);
  use(accumulator, stage, id);
  accumulator.isCleared = true;
  accumulator.isUsed = false;
  if (accumulator.pending == 0)
    return;
  accumulator.emptied = id;
  if (terms.hasUpdates)
    fault(Rule::ContributionLost, stage, id);
  else
    checkCoverage(accumulator, stage); // this is where the step ends
  accumulator.pending = accumulator.covered = 0;
  accumulator.reduction = accumulator.leavingOut = noOp;
}

void GradientWalk::reduce(OpId id) {
  const Op &op = program.ops[id];
  Accumulator &accumulator = touch(op.stage);
  if (op.isWait()) {
    accumulator.inFlight = noOp;
    return;
  }
  use(accumulator, op.stage, id);
  const uint32_t count = copies.count(op.stage);
  if (accumulator.covered > 0 && !terms.isIdentity(count))
    fault(Rule::ReducedTwice, op.stage, id, accumulator.reduction,
          terms.isHarmlessTwice(count) ? harmlessRepeat : 0);
  accumulator.covered = accumulator.pending;
  accumulator.reduction = id;
  // The one reduction of a synchronous step covers all of it; a later one does not make up for it.
  if (terms.isAsynchronous)
    accumulator.leavingOut = noOp;
  if (op.isStarted())
    accumulator.inFlight = id;
}

/// What the sum covers is looked at in Tied.cpp; here only that nothing else is at its accumulators.
void GradientWalk::reduceTied(OpId id) {
  const Op &op = program.ops[id];
  for (uint32_t stage : program.ties[op.microbatch].stages) {
    if (!copies.isOn(stage, device))
      continue;
    Accumulator &accumulator = touch(stage);
    if (!op.isWait())
      use(accumulator, stage, id);
    accumulator.inFlight = op.isStarted() ? id : noOp;
  }
}

void GradientWalk::update(OpId id) {
  const uint32_t stage = program.ops[id].stage;
  Accumulator &accumulator = touch(stage);
  use(accumulator, stage, id);
  if (accumulator.pending == 0) {
    // Contributions that a zero has discarded are that zero's fault.
    if (accumulator.emptied == noOp)
      fault(Rule::EmptyUpdate, stage, id, accumulator.lastUpdate);
  } else if (accumulator.reduction == noOp && terms.mustReduce(copies.count(stage))) {
    fault(Rule::MissingReduce, stage, id);
  }
  checkCoverage(accumulator, stage);
  accumulator.pending = accumulator.covered = 0;
  accumulator.reduction = accumulator.leavingOut = accumulator.emptied = noOp;
  accumulator.isUsed = terms.keepsUsed;
  accumulator.lastUpdate = id;
  if (accumulator.firstUpdate == noOp)
    accumulator.firstUpdate = id;
}

void GradientWalk::checkCoverage(const Accumulator &accumulator, uint32_t stage) {
  if (accumulator.leavingOut != noOp && !terms.isIdentity(copies.count(stage)))
    fault(Rule::ContributionAfterReduce, stage, accumulator.leavingOut);
}

/// What only the end of the device program shows, and the beginning of the next step.
void GradientWalk::finish(uint32_t stage) {
  const Accumulator &accumulator = accumulators[stage];
  if (accumulator.late > 0 && !terms.isAsynchronous)
    fault(Rule::UpdateBeforeContribution, stage, accumulator.firstUpdate, accumulator.contribution);
  else if (accumulator.pending > 0 && terms.hasUpdates)
    fault(Rule::MissingUpdate, stage, noOp, accumulator.contribution);
  else
    checkCoverage(accumulator, stage);
  if (accumulator.isUsed && accumulator.ontoLeftover != noOp && !terms.isAsynchronous)
    fault(Rule::GradientNotCleared, stage, accumulator.ontoLeftover, accumulator.lastUpdate);
}

std::vector<Fault> GradientWalk::run() {
  for (device = 0; device < program.devices; ++device) {
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
      const Op &op = program.ops[id];
      switch (op.kind) {
      case OpKind::Backward:
      case OpKind::BackwardWeight:
        contribute(id);
        break;
      case OpKind::Zero:
        zero(id, op.stage);
        break;
      case OpKind::Scale:
        use(touch(op.stage), op.stage, id);
        break;
      case OpKind::Reduce:
        reduce(id);
        break;
      case OpKind::ReduceTied:
        reduceTied(id);
        break;
      case OpKind::Norm:
        useAll(id);
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

std::vector<Fault> findGradientFaults(const Program &program, const Copies &copies, const Ties &ties,
                                      const GradientTerms &terms) {
  return GradientWalk(program, copies, ties, terms).run();
}

std::vector<Fault> findGradientFaults(const Program &program, const CostModel &costs, const Copies &copies) {
  if (program.isEvaluation)
    return {};
  uint32_t kinds = 0;
  for (const Op &op : program.ops)
    kinds |= kindBit(op.kind);
  return findGradientFaults(program, copies, Ties(program, copies), GradientTerms(program, kinds, costs));
}

} // namespace sluice
