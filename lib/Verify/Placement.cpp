// 801 misplaced-stage (placed nowhere; pairs placed twice never reach the IR) and 802 wrong-device.
#include "Verify/Faults.h"

#include <fmt/format.h>

namespace sluice {

/// Pairs that no `place` line covers.
static std::vector<Fault> findUnplaced(const Program &program) {
  std::vector<Fault> faults;
  auto add = [&](uint32_t stage, uint32_t microbatch) {
    faults.push_back({.rule = Rule::MisplacedStage, .stage = stage, .microbatch = microbatch});
  };
  const StageTable<uint32_t> &placement = program.placement;
  std::vector<bool> isWhole(placement.rowCount(), true);
  for (uint32_t row = 0; row < placement.rowCount(); ++row)
    for (uint32_t s = 0; s < program.stages; ++s)
      isWhole[row] = isWhole[row] && placement.inRow(row, s) != noDevice;
  for (uint32_t m = 0; m < program.microbatches; ++m)
    if (placement.empty() || !isWhole[placement.row(m)])
      for (uint32_t s = 0; s < program.stages; ++s)
        if (placement.empty() || placement.at(s, m) == noDevice)
          add(s, m);
  return faults;
}

static void reportUnplaced(VerifyContext &context) {
  const Program &program = context.program;
  std::vector<Fault> faults = findUnplaced(program);
  for (const FaultGroup &group : groupByLine(context, faults)) {
    Finding &finding =
        report(context, group,
               {{"stage", fmt::format("{}", group.front().stage)},
                {"microbatches", listed("microbatch", "microbatches", microbatchesOfFirst(group))},
                {"devices", "no device"}});
    // Nearest to a place: the last line that could have covered it.
    if (!program.placeSpans.empty())
      finding.span = program.placeSpans.back();
    noteOthers(context, group, true, finding);
    finding.fix.message = "cover it by one `place` line";
  }
  blame(context, faults);
}

/// Splits of one microbatch that are placed apart: what a stage keeps of the ones before stays on its device.
static std::vector<Fault> findSplitsApart(const Program &program) {
  std::vector<Fault> faults;
  if (program.sequenceSplits == 1 || program.placement.rowCount() < 2)
    return faults;
  for (uint32_t u = 0; u < program.microbatches; ++u) {
    if (!program.hasSplitBefore(u) || program.placement.row(u) == program.placement.row(u - 1))
      continue;
    for (uint32_t s = 0; s < program.stages; ++s)
      if (const uint32_t device = program.deviceOf(s, u); device != program.deviceOf(s, u - 1) &&
                                                          device != noDevice &&
                                                          program.deviceOf(s, u - 1) != noDevice)
        faults.push_back({.rule = Rule::MisplacedStage, .cause = 1, .stage = s, .microbatch = u});
  }
  return faults;
}

static void reportSplitsApart(VerifyContext &context) {
  const Program &program = context.program;
  std::vector<Fault> faults = findSplitsApart(program);
  for (const FaultGroup &group : groupByLine(context, faults)) {
    const Fault &first = group.front();
    const uint32_t splits = program.sequenceSplits, begin = first.microbatch / splits * splits;
    std::vector<uint32_t> devices;
    for (uint32_t u = begin; u < begin + splits; ++u)
      devices.push_back(program.deviceOf(first.stage, u));
    llvm::sort(devices);
    devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
    Finding &finding = report(context, group,
                              {{"stage", fmt::format("{}", first.stage)},
                               {"microbatches", fmt::format("microbatch {} (units {} to {})", begin / splits,
                                                            begin, begin + splits - 1)},
                               {"devices", listed("device", "devices", devices)}});
    finding.fix.message = "place all splits of a microbatch on one device";
  }
  // What the other families would say of any split of these follows from it.
  std::vector<Fault> all;
  for (const Fault &fault : faults) {
    const uint32_t begin = fault.microbatch / program.sequenceSplits * program.sequenceSplits;
    for (uint32_t u = begin; u < begin + program.sequenceSplits; ++u)
      all.push_back({Rule::MisplacedStage, 1, program.deviceOf(fault.stage, u), fault.stage, u, noOp, noOp});
  }
  blame(context, all);
}

static std::vector<Fault> findMisplacedOps(const VerifyContext &context) {
  const Program &program = context.program;
  std::vector<Fault> faults;
  for (uint32_t device = 0; device < program.devices; ++device)
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
      const Op &op = program.ops[id];
      bool isHere = op.hasMicrobatch()              ? program.deviceOf(op.stage, op.microbatch) == device
                    : op.kind >= OpKind::ReduceTied ? llvm::is_contained(program.membersOf(op), device)
                                                    : context.copies.isOn(op.stage, device);
      if (!isHere)
        faults.push_back({Rule::WrongDevice, 0, device, op.stage,
                          op.hasMicrobatch() ? op.microbatch : noMicrobatch, id, noOp});
    }
  return faults;
}

static std::string ownersOf(const VerifyContext &context, const Op &op) {
  if (op.hasMicrobatch())
    return fmt::format("device {} for microbatch {}", context.program.deviceOf(op.stage, op.microbatch),
                       op.microbatch);
  llvm::ArrayRef<uint32_t> owners = context.copies.devicesOf(op.stage);
  return owners.empty() ? "no device" : listed("device", "devices", owners.vec());
}

static void reportMisplacedOps(VerifyContext &context) {
  std::vector<Fault> faults = findMisplacedOps(context);
  context.hasMisplacedOps = !faults.empty();
  // What stands where nothing is placed follows from the missing place.
  llvm::erase_if(faults, [&](const Fault &fault) {
    if (fault.microbatch == noMicrobatch)
      return context.copies.count(fault.stage) == 0 && context.hasErrors;
    return context.blamedPairs.contains(context.pair(fault.stage, fault.microbatch));
  });
  std::vector<Fault> firsts = faults;
  keepFirstCauses(context, Scope::Copy, {}, firsts);
  for (const FaultGroup &group : groupByLine(context, firsts)) {
    const Fault &first = group.front();
    const Op &op = context.program.ops[first.op];
    Finding &finding = report(context, group,
                              {{"op", str(op)},
                               {"device", fmt::format("{}", first.device)},
                               {"stage", fmt::format("{}", first.stage)},
                               {"owners", ownersOf(context, op)}});
    noteOthers(context, group, false, finding);
    finding.fix.message = op.hasMicrobatch() ? fmt::format("move it to device {}",
                                                           context.program.deviceOf(op.stage, op.microbatch))
                                             : "move it to a device that holds the stage, or delete it";
  }
  blame(context, faults);
  // The rightful owners lack what was done elsewhere.
  for (const Fault &fault : faults)
    for (uint32_t owner : context.copies.devicesOf(fault.stage))
      context.blamedCopies.insert(VerifyContext::copy(owner, fault.stage));
}

void verifyPlacement(VerifyContext &context) {
  reportUnplaced(context);
  if (context.program.placement.empty())
    return;
  reportSplitsApart(context);
  reportMisplacedOps(context);
}

} // namespace sluice
