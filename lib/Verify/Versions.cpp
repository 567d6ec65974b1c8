// 601 version-unavailable, 602 version-mixed, 603 stash-order and 604 staleness-exceeded: which version of
// the weights each op reads and whether its copy still has it.
#include "IR/Versions.h"

#include "Verify/Faults.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

// 602 comes last: a warning never hides an error.
static constexpr Rule orderOfBlame[] = {Rule::VersionUnavailable, Rule::StashOrder, Rule::StalenessExceeded,
                                        Rule::VersionMixed};

namespace {

/// Fault::cause of 601.
enum Unavailable : uint8_t { NotMade, NotTheNewest, Dropped };

/// The copy of one stage on the device being walked.
struct Copy {
  uint32_t device = noDevice;
  uint32_t newest = 0;
  OpId stalest = noOp; ///< Of the contributions since the last update the one of the oldest version.
  uint32_t stalestVersion = 0;
};

class VersionChecks {
public:
  VersionChecks(const Program &program, const CostModel &costs, const Versions &versions)
      : program(program), costs(costs), versions(versions), copies(program.stages),
        forwards(static_cast<size_t>(program.stages) * program.microbatches) {}
  std::vector<Fault> run() {
    for (device = 0; device < program.devices; ++device)
      for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id)
        check(id);
    return std::move(faults);
  }
  /// The version that the forward of this pair read.
  uint32_t forwardOf(const Op &op) const {
    return forwards[static_cast<size_t>(op.stage) * program.microbatches + op.microbatch];
  }

private:
  void check(OpId id);
  void update(OpId id, Copy &copy);
  void fault(Rule rule, OpId id, uint8_t cause = 0, OpId other = noOp) {
    faults.push_back({rule, cause, device, program.ops[id].stage, noMicrobatch, id, other});
  }

  const Program &program;
  const CostModel &costs;
  const Versions &versions;
  uint32_t device = 0;
  std::vector<Copy> copies;       // per stage
  std::vector<uint32_t> forwards; // per pair: the version read, at most the newest
  std::vector<Fault> faults;
};

} // namespace

void VersionChecks::check(OpId id) {
  const Op &op = program.ops[id];
  Copy &copy = copies[op.stage];
  if (copy.device != device)
    (copy = {}).device = device;
  const uint32_t version = versions.of[id];
  switch (op.kind) {
  case OpKind::Forward:
    if (version > copy.newest)
      fault(Rule::VersionUnavailable, id, NotMade);
    else if (version < copy.newest && program.versions == VersionRule::Newest)
      fault(Rule::VersionUnavailable, id, NotTheNewest);
    forwards[static_cast<size_t>(op.stage) * program.microbatches + op.microbatch] =
        std::min(version, copy.newest);
    break;
  case OpKind::Backward:
  case OpKind::BackwardInput:
  case OpKind::Recompute:
    if (version == forwardOf(op))
      break;
    fault(program.versions == VersionRule::Queued ? Rule::StashOrder : Rule::VersionMixed, id);
    break;
  case OpKind::Update:
    update(id, copy);
    return;
  default:
    break;
  }
  const bool contributes = op.kind == OpKind::Backward || op.kind == OpKind::BackwardWeight;
  if (contributes && (copy.stalest == noOp || forwardOf(op) < copy.stalestVersion)) {
    copy.stalest = id;
    copy.stalestVersion = forwardOf(op);
  }
}

void VersionChecks::update(OpId id, Copy &copy) {
  const uint32_t before = copy.newest++;
  if (copy.stalest != noOp && costs.stalenessBound && before - copy.stalestVersion > *costs.stalenessBound)
    fault(Rule::StalenessExceeded, id, 0, copy.stalest);
  copy.stalest = noOp;
  if (program.mostVersions > 0 && versions.kept[id] > program.mostVersions)
    fault(Rule::VersionUnavailable, id, Dropped);
}

static bool readsWeights(const Op &op) {
  return op.kind == OpKind::Forward || op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput ||
         op.kind == OpKind::Recompute;
}

/// Of the versions of the fault's stage that ops behind its update read: the oldest, its first reader, and
/// all of them in order, the newest among them.
struct Readers {
  OpId first = noOp;
  uint32_t oldest = noVersion;
  std::vector<uint32_t> versions;
};
static Readers readersBehind(const Program &program, const Versions &versions, const Fault &update) {
  Readers readers;
  const uint32_t newest = versions.of[update.op];
  readers.versions.push_back(newest);
  for (OpId id = update.op + 1; id < program.deviceBegin[update.device + 1]; ++id) {
    const Op &op = program.ops[id];
    const uint32_t version = versions.of[id];
    if (op.stage != update.stage || !readsWeights(op) || version > newest)
      continue;
    readers.versions.push_back(version);
    if (version < readers.oldest) {
      readers.oldest = version;
      readers.first = id;
    }
  }
  llvm::sort(readers.versions);
  readers.versions.erase(std::unique(readers.versions.begin(), readers.versions.end()),
                         readers.versions.end());
  return readers;
}

static std::string versionList(llvm::ArrayRef<uint32_t> versions) {
  return listed("version", "versions", versions.vec());
}

static void reportUnavailable(VerifyContext &context, const FaultGroup &group, const Versions &versions) {
  const Program &program = context.program;
  const Fault &first = group.front();
  std::string stage = fmt::format("{}", first.stage);
  if (first.cause == Dropped) {
    const Readers readers = readersBehind(program, versions, first);
    const uint32_t most = program.mostVersions;
    Finding &finding =
        report(context, group,
               {{"op", opText(context, readers.first)},
                {"version", fmt::format("{}", readers.oldest)},
                {"stage", stage},
                {"state", fmt::format("no longer kept: {} leaves {}", opText(context, first.op),
                                      versionList(llvm::ArrayRef(readers.versions).take_back(most)))}});
    noteOp(context, finding, readers.first, opText(context, readers.first) + " needs it");
    noteOthers(context, group, false, finding);
    finding.fix.message = fmt::format("stashed({}), or update later", versions.kept[first.op]);
    return;
  }
  const uint32_t version = versions.of[first.op];
  uint32_t newest = 0;
  for (OpId id = program.deviceBegin[first.device]; id < first.op; ++id)
    newest += program.ops[id].kind == OpKind::Update && program.ops[id].stage == first.stage;
  Finding &finding =
      report(context, group,
             {{"op", opText(context, first.op)},
              {"version", fmt::format("{}", version)},
              {"stage", stage},
              {"state", first.cause == NotMade
                            ? fmt::format("not made yet: {} so far", counted(newest, "update", "updates"))
                            : fmt::format("no longer kept: version {}", newest)}});
  if (first.cause == NotMade)
    for (OpId id = first.op, made = newest; id < program.deviceBegin[first.device + 1]; ++id)
      if (program.ops[id].kind == OpKind::Update && program.ops[id].stage == first.stage &&
          ++made == version) {
        noteOp(context, finding, id, fmt::format("{} makes it", opText(context, id)));
        break;
      }
  noteOthers(context, group, false, finding);
  finding.fix.message = first.cause == NotMade ? fmt::format("using version {}, or update before it", newest)
                                               : "versions = stashed;";
}

static void reportMixed(VerifyContext &context, const FaultGroup &group, const Versions &versions,
                        uint32_t read) {
  const Fault &first = group.front();
  const Op &op = context.program.ops[first.op];
  const bool isPop = first.rule == Rule::StashOrder;
  std::string version = fmt::format("{}", versions.of[first.op]);
  Values values = {{"op", opText(context, first.op)}, {"forward", fmt::format("{}", read)}};
  if (isPop) {
    values.push_back({"popped", version});
    values.push_back({"microbatch", fmt::format("{}", versions.poppedFrom[first.op])});
  } else {
    values.push_back({"version", version});
    values.push_back({"stage", fmt::format("{}", first.stage)});
  }
  Finding &finding = report(context, group, values);
  if (OpId forward = context.index.forward(op.stage, op.microbatch); forward != noOp)
    noteOp(context, finding, forward, fmt::format("{} read version {}", opText(context, forward), read));
  noteOthers(context, group, false, finding);
  finding.fix.message =
      isPop ? "versions = stashed; or backwards in the order of the forwards" : "versions = stashed;";
}

static void reportStaleness(VerifyContext &context, const FaultGroup &group, const Versions &versions,
                            const VersionChecks &checks) {
  const Fault &first = group.front();
  const Op &contribution = context.program.ops[first.other];
  const uint32_t read = checks.forwardOf(contribution);
  const uint32_t staleness = versions.of[first.op] - 1 - read;
  const int64_t bound = *context.costs.stalenessBound;
  Finding &finding = report(context, group,
                            {{"update", opText(context, first.op)},
                             {"staleness", fmt::format("{}", staleness)},
                             {"bound", fmt::format("{}", bound)}});
  noteOp(context, finding, first.other,
         fmt::format("{} is of version {}, the update applies it to version {}", opText(context, first.other),
                     read, versions.of[first.op] - 1));
  if (auto declared = context.costs.declaredAt.find("semantics"); declared != context.costs.declaredAt.end())
    finding.notes.push_back({"the bound is declared here", declared->second, {}, ""});
  noteOthers(context, group, false, finding);
  const int64_t fewer = staleness - bound;
  finding.fix.message = fmt::format(
      "staleness <= {}, or {} on device {}", staleness,
      counted(static_cast<uint64_t>(fewer), "warm-up forward fewer", "warm-up forwards fewer"), first.device);
}

void verifyVersions(VerifyContext &context) {
  const Program &program = context.program;
  // A synchronous program updates once, behind everything: all its ops read the same version.
  if (!context.costs.asynchronous && program.namedVersions.empty())
    return;
  const Versions versions = versionsOf(program);
  VersionChecks checks(program, context.costs, versions);
  std::vector<Fault> faults = checks.run();
  keepFirstCauses(context, Scope::Copy, orderOfBlame, faults);
  for (const FaultGroup &group : groupByLine(context, faults)) {
    const Fault &first = group.front();
    if (first.rule == Rule::VersionUnavailable)
      reportUnavailable(context, group, versions);
    else if (first.rule == Rule::StalenessExceeded)
      reportStaleness(context, group, versions, checks);
    else
      reportMixed(context, group, versions, checks.forwardOf(program.ops[first.op]));
  }
  blame(context, faults);
}

} // namespace sluice
