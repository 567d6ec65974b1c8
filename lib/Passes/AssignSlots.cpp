#include "Passes/AssignSlots.h"

#include "Passes/DeviceRows.h"
#include "Passes/PostedProgram.h"
#include "Passes/Ties.h"

#include "llvm/ADT/STLExtras.h"

namespace sluice {

using RuntimeOp = runtime::Op;

llvm::StringRef unknownToExecutors(const Program &program, const CostModel &costs) {
  return lossScales(program, costs).problem;
}

static runtime::Uses usesOf(const ExecutorTables &tables) {
  uint64_t found = 0; // a bit for each op
  for (const DeviceTable &device : tables.devices)
    for (const runtime::Instruction &row : device.rows)
      found |= uint64_t(1) << static_cast<unsigned>(row.op);
  auto has = [&](RuntimeOp op) { return (found >> static_cast<unsigned>(op) & 1) != 0; };
  runtime::Uses uses{};
  uses.backward = has(RuntimeOp::Backward);
  uses.splitBackward = has(RuntimeOp::BackwardInput) || has(RuntimeOp::BackwardWeight);
  uses.recompute = has(RuntimeOp::Recompute);
  uses.zero = has(RuntimeOp::Zero);
  uses.reduce = has(RuntimeOp::Reduce);
  uses.update = has(RuntimeOp::Update);
  for (size_t i = 1; i < tables.copies.size(); ++i)
    uses.copies |= tables.copies[i].stage == tables.copies[i - 1].stage;
  uses.offload = has(RuntimeOp::Offload) || has(RuntimeOp::Reload);
  uses.norm = has(RuntimeOp::Norm);
  uses.unshard = has(RuntimeOp::Unshard) || has(RuntimeOp::Reshard);
  uses.scale = has(RuntimeOp::Scale) || tables.reduction.mean;
  uses.tied = has(RuntimeOp::ReduceTied);
  uses.factors = has(RuntimeOp::Factor);
  uses.skips = !tables.skips.empty();
  uses.carries = has(RuntimeOp::Carry);
  uses.versions = llvm::any_of(tables.copies, [](const runtime::Copy &copy) { return copy.versions > 1; });
  return uses;
}

static void addModel(const Program &program, const CostModel &costs, const VersionSlots &versions,
                     ExecutorTables &tables) {
  tables.stages = program.stages;
  tables.microbatches = program.microbatches;
  tables.splits = program.sequenceSplits;
  tables.replicas = static_cast<uint32_t>(costs.replicas.value_or(1));
  tables.reduction = {costs.reductionIsMean, costs.isSharded, costs.isCopied};
  for (uint32_t stage = 0; stage < program.stages; ++stage)
    for (uint32_t device : program.devicesOf(stage)) {
      auto several = versions.copies.find({stage, device});
      if (several == versions.copies.end())
        tables.copies.push_back({stage, device});
      else
        tables.copies.push_back({stage, device, several->second.count, several->second.newest});
    }
  for (const TiedWeight &weight : program.ties)
    tables.ties.push_back({weight.name, weight.stages, isLocal(program, weight)});
  for (const SkipEdge &skip : program.skips)
    tables.skips.push_back({skip.from, skip.to, skip.hasGradient});
}

/// With its communication written, by whatever places it.
static std::optional<Program> written(const Program &program, const ProgramIndex &index,
                                      const CostModel &costs) {
  if (auto posted = postedProgram(program, index, costs))
    return posted;
  return lowerCommunication(program, index, CommunicationPlacement::Early, /*withPlaces=*/false);
}

std::optional<ExecutorTables> assignSlots(const Program &program, const CostModel &costs) {
  const ProgramIndex index(program);
  const bool runsAsWritten = program.isExplicit && !program.receivesWaitAtUse;
  std::optional<Program> made;
  if (!runsAsWritten && !(made = written(program, index, costs)))
    return std::nullopt;
  const Program &run = made ? *made : program;
  const bool waitsLazily = !program.isExplicit && costs.communication != "just_in_time";

  ExecutorTables tables;
  LossScales scales = lossScales(program, costs);
  const VersionSlots versions = costs.asynchronous ? assignVersions(run) : VersionSlots();
  addModel(program, costs, versions, tables);
  const MessageChannels channels(run, costs.channels.key);
  tables.channels = channels.channels();
  std::vector<bool> sends(program.devices);
  for (const runtime::Channel &channel : tables.channels)
    sends[channel.from] = true;
  TrainingRows training(run, costs, scales);
  DeviceRows rows({run, index, channels, versions, training, waitsLazily});
  for (uint32_t device = 0; device < program.devices; ++device) {
    // All slots at hand from the start: then each rests as long as can be before its next use, which waits.
    const uint32_t boundaries = waitsLazily ? rows.boundariesOf(device) + sends[device] : 0;
    tables.devices.push_back(rows.lower(device, boundaries));
  }
  tables.factors = std::move(training.factors);
  tables.lossFactors = std::move(scales.ofMicrobatch);
  tables.uses = usesOf(tables);
  return tables;
}

} // namespace sluice
