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
  brokenSites.resize(static_cast<unsigned>(schedule.sites.size()));
}

std::optional<Program> Elaborator::run() {
  size_t findingsBefore = diagnostics.findings().size();
  if (schedule.table && !readTable())
    return std::nullopt;
  bool placed = schedule.table && schedule.places.empty() ? placeFromTable()
                                                          : evaluatePlacement(schedule, evaluator, options.maxOps, program);
  if (!placed || (schedule.table && !checkTable()))
    return std::nullopt;
  if (schedule.timetable && !readTimetable())
    return std::nullopt;
  findPrograms();
  if (stopped)
    return std::nullopt;
  program.deviceBegin = {0};
  for (device = 0; device < program.devices && !stopped; ++device) {
    beginDevice(device);
    if (schedule.table)
      for (const TableOp &entry : table[device])
        emit(entry.op, entry.site, 0);
    if (schedule.timetable)
      emitTimetable();
    if (const CheckedDevice *block = programOf[device]) {
      if (block->variable != noSlot)
        evaluator.set(block->variable, static_cast<int64_t>(device));
      statements(block->body);
    }
    program.deviceBegin.push_back(program.size());
  }
  for (size_t i = findingsBefore; i < diagnostics.findings().size(); ++i)
    if (diagnostics.findings()[i].severity == Severity::Error)
      return std::nullopt;
  return std::move(program);
}

/// Every device with a stage has exactly one program; a table or a timetable may have one after it.
void Elaborator::findPrograms() {
  programOf.assign(program.devices, nullptr);
  program.programSpan.assign(program.devices, schedule.span);
  bool optional = schedule.table || schedule.timetable;
  Span shared = schedule.table ? schedule.table->span : schedule.timetable ? schedule.timetable->span : Span{};
  if (optional)
    program.programSpan.assign(program.devices, shared);
  auto stagesText = [&](uint32_t d) {
    std::vector<uint32_t> stages = program.stagesOn(d);
    std::string text = stages.size() == 1 ? "stage " : "stages ";
    for (size_t i = 0; i < stages.size() && i < 8; ++i)
      text += fmt::format("{}{}", i == 0 ? "" : ", ", stages[i]);
    return stages.empty() ? std::string("no stage") : stages.size() > 8 ? text + ", ..." : text;
  };
  auto give = [&](int64_t d, const CheckedDevice &block) {
    if (d < 0 || d >= static_cast<int64_t>(program.devices)) {
      diagnostics.report(Rule::IndexOutOfRange, block.span,
                         {{"op", "device"},
                          {"what", "device"},
                          {"index", std::to_string(d)},
                          {"bound", fmt::format("devices = {}", program.devices)}});
      return;
    }
    const CheckedDevice *&slot = programOf[static_cast<size_t>(d)];
    if (slot) {
      Finding &finding = diagnostics.report(Rule::ProgramCount, block.span,
                                            {{"device", std::to_string(d)},
                                             {"stages", stagesText(static_cast<uint32_t>(d))},
                                             {"programs", "two programs"}});
      finding.device = static_cast<uint32_t>(d);
      finding.notes.push_back({"the first one", slot->span, {}, {}});
      finding.fix.message = "write one";
      return;
    }
    slot = &block;
    if (!optional)
      program.programSpan[static_cast<size_t>(d)] = block.span;
  };
  for (const CheckedDevice &block : schedule.devices) {
    if (block.device != noNode) {
      if (auto d = evaluator.evalInteger(block.device, "the device"))
        give(*d, block);
      continue;
    }
    Evaluator::Bounds bounds{0, program.devices, 1};
    if (block.range) {
      auto given = evaluator.evalRange(*block.range);
      if (!given)
        continue;
      bounds = *given;
    }
    for (int64_t d = bounds.first; d < bounds.last && d <= static_cast<int64_t>(program.devices); ++d)
      give(d, block);
  }
  if (optional)
    return;
  std::vector<uint32_t> without;
  for (uint32_t d = 0; d < program.devices; ++d)
    if (!programOf[d] && !program.stagesOn(d).empty())
      without.push_back(d);
  if (without.empty())
    return;
  Finding &finding = diagnostics.report(Rule::ProgramCount, schedule.span,
                                        {{"device", std::to_string(without[0])},
                                         {"stages", stagesText(without[0])},
                                         {"programs", "no program"}});
  finding.device = without[0];
  finding.fix.message = fmt::format("device {} {{ ... }}", without.size() == program.devices ? "d" : std::to_string(without[0]));
  without.erase(without.begin());
  if (!without.empty())
    finding.notes.push_back({"the same holds for " + listed("device", "devices", without), {}, {}, {}});
}

std::optional<Program> elaborate(const CheckedSchedule &schedule, Evaluator &evaluator,
                                 const SourceManager &sources, const ElaborateOptions &options) {
  return Elaborator(schedule, evaluator, sources, options).run();
}

} // namespace sluice
