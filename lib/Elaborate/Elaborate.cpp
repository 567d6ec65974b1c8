#include "Elaborate/Elaborate.h"

#include "Elaborate/Elaborator.h"
#include "Elaborate/Placement.h"
#include "Support/Words.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

Elaborator::Elaborator(const CheckedSchedule &schedule, Evaluator &evaluator, const SourceManager &sources,
                       const ElaborateOptions &options)
    : schedule(schedule), evaluator(evaluator), diagnostics(evaluator.diagnostics), sources(sources),
      options(options) {
  program.name = schedule.name;
  program.span = schedule.span;
  program.sites = schedule.sites;
  program.nests = schedule.nests;
  program.isExplicit = schedule.isExplicit;
  program.isEvaluation = schedule.isEvaluation;
  program.phaseSpan = schedule.phaseSpan;
  program.versions = schedule.versions;
  brokenSites.resize(static_cast<unsigned>(schedule.sites.size()));
}

std::optional<Program> Elaborator::run(std::vector<int64_t> *slots) {
  slotsWanted = slots;
  size_t findingsBefore = diagnostics.findings().size();
  if (!evaluateSplits() || !evaluateVersions() || (schedule.table && !readTable()))
    return std::nullopt;
  bool placed = schedule.table && schedule.places.empty()
                    ? placeFromTable()
                    : evaluatePlacement(schedule, evaluator, options.maxOps, program);
  if (!placed || (schedule.table && !checkTable()) || !checkSplits() || !evaluateBuffers() ||
      !evaluateSkips() || !evaluateTies())
    return std::nullopt;
  findStages();
  if (schedule.timetable && !readTimetable())
    return std::nullopt;
  findPrograms();
  if (stopped)
    return std::nullopt;
  program.deviceBegin = {0};
  const bool isWhole = schedule.table && takeTable();
  for (device = 0; device < program.devices && !stopped && !isWhole; ++device) {
    beginDevice(device);
    if (schedule.table)
      emitRow();
    if (schedule.timetable)
      emitTimetable();
    if (const CheckedDevice *block = programOf[device]) {
      if (block->variable != noSlot)
        evaluator.set(block->variable, static_cast<int64_t>(device));
      size_t lists = evaluator.listMark();
      statements(block->body);
      evaluator.releaseLists(lists);
    }
    program.deviceBegin.push_back(program.size());
  }
  for (size_t i = findingsBefore; i < diagnostics.findings().size(); ++i)
    if (diagnostics.findings()[i].severity == Severity::Error)
      return std::nullopt;
  if (slotsWanted && schedule.timetable)
    slotsWanted->resize(program.size());
  return std::move(program);
}

void Elaborator::findStages() {
  stagesOf.assign(program.devices, {});
  localOf.assign(program.stages, ~0u);
  for (uint32_t s = 0; s < program.stages; ++s)
    for (uint32_t row = 0; row < program.placement.rowCount(); ++row) {
      std::vector<uint32_t> &stages = stagesOf[program.placement.inRow(row, s)];
      if (stages.empty() || stages.back() != s)
        stages.push_back(s);
    }
}

std::string Elaborator::stagesText(uint32_t d) const {
  const std::vector<uint32_t> &stages = stagesOf[d];
  if (stages.empty())
    return "no stage";
  std::string text = stages.size() == 1 ? "stage " : "stages ";
  for (size_t i = 0; i < stages.size() && i < 8; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", stages[i]);
  return stages.size() > 8 ? text + ", ..." : text;
}

/// Gives a device its program; false if there is no such device or it has one. Of those that have one
/// the first of a block is a finding.
bool Elaborator::give(int64_t d, const CheckedDevice &block, bool isFirstClash) {
  if (d < 0 || d >= static_cast<int64_t>(program.devices)) {
    diagnostics.report(Rule::IndexOutOfRange, block.span,
                       {{"op", "device"},
                        {"what", "device"},
                        {"index", std::to_string(d)},
                        {"bound", fmt::format("devices = {}", program.devices)}});
    return false;
  }
  const CheckedDevice *&slot = programOf[static_cast<size_t>(d)];
  if (slot && isFirstClash) {
    Finding &finding = diagnostics.report(Rule::ProgramCount, block.span,
                                          {{"device", std::to_string(d)},
                                           {"stages", stagesText(static_cast<uint32_t>(d))},
                                           {"programs", "two programs"}});
    finding.device = static_cast<uint32_t>(d);
    finding.notes.push_back({"the first one", slot->span, {}, {}});
    finding.fix.message = "write one";
  }
  if (slot)
    return false;
  slot = &block;
  if (!schedule.table && !schedule.timetable)
    program.programSpan[static_cast<size_t>(d)] = block.span;
  return true;
}

/// Every device with a stage has exactly one program; a table or a timetable may have one after it.
void Elaborator::findPrograms() {
  programOf.assign(program.devices, nullptr);
  program.programSpan.assign(program.devices, schedule.table       ? schedule.table->span
                                              : schedule.timetable ? schedule.timetable->span
                                                                   : schedule.span);
  for (uint32_t d = 0; d < table.rows.size(); ++d)
    if (table.rows[d].span.isValid())
      program.programSpan[d] = table.rows[d].span;
  for (const CheckedDevice &block : schedule.devices) {
    if (block.device != noNode) {
      if (auto d = evaluator.evalInteger(block.device, "the device"))
        give(*d, block, true);
      continue;
    }
    Evaluator::Bounds bounds{0, program.devices, 1};
    if (block.range) {
      auto given = evaluator.evalRange(*block.range);
      if (!given)
        continue;
      bounds = *given;
    }
    // Of the devices that do not exist one on either side stands for all.
    const int64_t devices = program.devices;
    if (bounds.first < std::min<int64_t>(bounds.last, 0))
      give(bounds.first, block, true);
    std::vector<uint32_t> clashing;
    for (int64_t d = std::max<int64_t>(bounds.first, 0); d < std::min(bounds.last, devices); ++d)
      if (!give(d, block, clashing.empty()))
        clashing.push_back(static_cast<uint32_t>(d));
    noteOthers(clashing);
    if (bounds.last > std::max(bounds.first, devices))
      give(std::max(bounds.first, devices), block, true);
  }
  if (schedule.table || schedule.timetable)
    return;
  std::vector<uint32_t> without;
  for (uint32_t d = 0; d < program.devices; ++d)
    if (!programOf[d] && !stagesOf[d].empty())
      without.push_back(d);
  if (without.empty())
    return;
  Finding &finding = diagnostics.report(Rule::ProgramCount, schedule.span,
                                        {{"device", std::to_string(without[0])},
                                         {"stages", stagesText(without[0])},
                                         {"programs", "no program"}});
  finding.device = without[0];
  finding.fix.message = fmt::format("device {} {{ ... }}",
                                    without.size() == program.devices ? "d" : std::to_string(without[0]));
  noteOthers(without);
}

/// The last finding speaks of the first of these devices; a note names the others.
void Elaborator::noteOthers(llvm::ArrayRef<uint32_t> devices) {
  if (devices.size() > 1)
    diagnostics.findings().back().notes.push_back(
        {"the same holds for " + listed("device", "devices", devices.drop_front().vec()), {}, {}, {}});
}

std::optional<Program> elaborate(const CheckedSchedule &schedule, Evaluator &evaluator,
                                 const SourceManager &sources, const ElaborateOptions &options,
                                 std::vector<int64_t> *slots) {
  return Elaborator(schedule, evaluator, sources, options).run(slots);
}

} // namespace sluice
