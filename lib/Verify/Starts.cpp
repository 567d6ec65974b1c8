// 308 unpaired-wait and 309 start-without-wait: the n-th wait of a name belongs to its n-th start on the same
// device, which stands before it. One walk a device, only of programs that start anything.
#include "Verify/Faults.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <array>
#include <fmt/format.h>

namespace sluice {

static constexpr Rule orderOfBlame[] = {Rule::UnpairedWait, Rule::StartWithoutWait};

namespace {

/// Counts, per name, the starts that no wait has met yet.
class StartWalk {
public:
  explicit StartWalk(const Program &program) : program(program) {}
  std::vector<Fault> run();

private:
  uint32_t &pendingOf(OpId id);
  void step(OpId id);
  void addOpen();
  void fault(Rule rule, OpId id) {
    const Op &op = program.ops[id];
    const uint32_t microbatch = op.hasMicrobatch() ? op.microbatch : noMicrobatch;
    faults.push_back({rule, 0, device, op.stage, microbatch, id, noOp});
  }

  const Program &program;
  uint32_t device = 0;
  uint64_t open = 0; ///< Sum of all counts.
  /// Per kind, a column of pairs, made when the kind first occurs: a pair belongs to one device.
  std::array<std::vector<uint32_t>, opKindCount> ofPair;
  /// Of the device at hand by kind, stage and tied weight or microbatch, and other stage: names that are no
  /// kind and pair.
  llvm::DenseMap<std::pair<uint64_t, uint32_t>, uint32_t> ofOthers;
  std::vector<Fault> faults;
};

} // namespace

uint32_t &StartWalk::pendingOf(OpId id) {
  const Op &op = program.ops[id];
  if (op.hasMicrobatch() && !op.namesPeer()) {
    std::vector<uint32_t> &column = ofPair[static_cast<size_t>(op.kind)];
    if (column.empty())
      column.resize(static_cast<size_t>(program.stages) * program.microbatches);
    return column[static_cast<size_t>(op.stage) * program.microbatches + op.microbatch];
  }
  const uint64_t kindAndStage = static_cast<uint64_t>(op.kind) << 16 | op.stage;
  return ofOthers[{kindAndStage << 32 | op.microbatch, op.namesPeer() ? program.peerStageOf(id) : 0}];
}

void StartWalk::step(OpId id) {
  const Op &op = program.ops[id];
  const bool isStart = op.isStarted();
  if (!isStart && !op.isWait())
    return;
  uint32_t &pending = pendingOf(id);
  if (isStart) {
    ++pending;
    ++open;
  } else if (pending > 0) {
    --pending;
    --open;
  } else {
    fault(Rule::UnpairedWait, id);
  }
}

/// The last starts of their names: those before them have their waits.
void StartWalk::addOpen() {
  for (OpId id = program.deviceBegin[device + 1]; open > 0 && id-- > program.deviceBegin[device];) {
    if (!program.ops[id].isStarted())
      continue;
    uint32_t &pending = pendingOf(id);
    if (pending == 0)
      continue;
    fault(Rule::StartWithoutWait, id);
    --pending;
    --open;
  }
}

std::vector<Fault> StartWalk::run() {
  for (device = 0; device < program.devices; ++device) {
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id)
      step(id);
    addOpen();
    ofOthers.clear();
  }
  return std::move(faults);
}

/// Without `start ` or `wait `.
static std::string nameOf(const VerifyContext &context, OpId id) {
  return llvm::StringRef(opText(context, id)).split(' ').second.str();
}

/// The nearest op of the same name on the device that is no wait: a start behind the wait, or a blocking op;
/// noOp if there is none.
static OpId namesake(const VerifyContext &context, OpId wait, uint32_t device) {
  const Program &program = context.program;
  const Op &op = program.ops[wait];
  auto isSame = [&](OpId id) {
    const Op &other = program.ops[id];
    return other.kind == op.kind && other.stage == op.stage && other.microbatch == op.microbatch &&
           !other.isWait() && other.namesPeer() == op.namesPeer() &&
           (!op.namesPeer() || program.peerStageOf(id) == program.peerStageOf(wait));
  };
  for (OpId id = wait + 1; id < program.deviceBegin[device + 1]; ++id)
    if (isSame(id) && program.ops[id].isStarted())
      return id;
  for (OpId id = wait; id-- > program.deviceBegin[device];)
    if (isSame(id))
      return id;
  return noOp;
}

static void reportUnpaired(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  const std::string name = nameOf(context, first.op);
  Finding &finding = report(context, group, {{"op", name}});
  const OpId other = namesake(context, first.op, first.device);
  const bool isStarted = other != noOp && context.program.ops[other].isStarted();
  finding.fix.message = fmt::format("add `start {}` before it, or delete the wait", name);
  if (isStarted && other > first.op) {
    noteOp(context, finding, other, "it is started only here");
    finding.fix.message = fmt::format("move `start {}` before it", name);
  } else if (isStarted) {
    noteOp(context, finding, other, "this start has a wait of its own");
  } else if (other != noOp) {
    noteOp(context, finding, other, fmt::format("{} here ends before the next op begins", name));
    finding.fix.message = fmt::format("delete the wait, or write `start {}` there", name);
  }
  noteOthers(context, group, false, finding);
}

/// What has to wait for an op that goes on beside its device.
static const char *userOf(OpKind kind) {
  switch (kind) {
  case OpKind::Offload:
  case OpKind::Reload:
    return "before the activation is used again";
  case OpKind::Reduce:
  case OpKind::ReduceTied:
    return "before anything touches the gradient";
  case OpKind::Unshard:
    return "before the weights are used";
  default:
    return "before its value or buffer is used";
  }
}

static void reportOpen(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  const std::string name = nameOf(context, first.op);
  Finding &finding = report(context, group, {{"op", name}});
  noteOthers(context, group, false, finding);
  finding.fix.message = fmt::format("add `wait {}` {}", name, userOf(context.program.ops[first.op].kind));
}

void verifyStarts(VerifyContext &context) {
  if (!context.hasStarts)
    return;
  std::vector<Fault> faults = StartWalk(context.program).run();
  if (faults.empty())
    return;
  auto ofPair = [](const Fault &fault) { return fault.microbatch != noMicrobatch; };
  std::vector<Fault> ofCopies(llvm::partition(faults, ofPair), faults.end());
  faults.resize(faults.size() - ofCopies.size());
  keepFirstCauses(context, Scope::Pair, orderOfBlame, faults);
  keepFirstCauses(context, Scope::Copy, orderOfBlame, ofCopies);
  llvm::append_range(faults, ofCopies);
  for (const FaultGroup &group : groupByLine(context, faults))
    if (group.front().rule == Rule::UnpairedWait)
      reportUnpaired(context, group);
    else
      reportOpen(context, group);
  blame(context, faults);
}

} // namespace sluice
