// Tables: rows of cells, written in the file or read from a CSV.
#include "Elaborate/Elaborator.h"
#include "Elaborate/Placement.h"

#include <fmt/format.h>
#include <utility>

namespace sluice {

bool Elaborator::readTable() {
  const CheckedTable &source = *schedule.table;
  // Sites of a table's cells come after those of a device block beside it.
  auto read = source.isCsv ? readCsvRows : readTableRows;
  auto text =
      read(sources.text(source.text), source.text.begin, {options.maxOps}, program.sites, diagnostics);
  if (!text)
    return false;
  table = std::move(*text);
  program.isExplicit |= table.hasCommunication; // a table that says some of it says all of it
  program.receivesWaitAtUse = table.hasCommunication;
  brokenSites.resize(static_cast<unsigned>(program.sites.size()));
  return true;
}

/// Where nothing else adds ops, the columns of the table are those of the program.
bool Elaborator::takeTable() {
  if (schedule.timetable || !schedule.devices.empty())
    return false;
  uint32_t next = 0;
  for (const TableText::Row &row : table.rows)
    if (row.begin != row.end && std::exchange(next, row.end) != row.begin)
      return false; // rows in another order than their devices
  for (const TableText::Row &row : table.rows)
    program.deviceBegin.push_back(std::max(program.deviceBegin.back(), row.end));
  program.ops = std::move(table.ops);
  program.siteOf = std::move(table.siteOf);
  program.frameOf.resize(program.ops.size());
  return true;
}

/// The row of the device at hand.
void Elaborator::emitRow() {
  const TableText::Row &row = table.rows[device];
  const size_t before = program.ops.size(), count = row.end - row.begin;
  if (count > 0 && before + count > options.maxOps)
    return tooManyOps(table.siteOf[row.begin]);
  program.ops.insert(program.ops.end(), table.ops.begin() + row.begin, table.ops.begin() + row.end);
  program.siteOf.insert(program.siteOf.end(), table.siteOf.begin() + row.begin,
                        table.siteOf.begin() + row.end);
  program.frameOf.resize(program.ops.size());
  evaluator.earn(static_cast<int64_t>(count));
  if (schedule.usesNext || schedule.usesPending)
    for (const Op &op : llvm::ArrayRef(program.ops).drop_front(before))
      this->count(op);
}

/// Where a finding about the table as a whole stands: in the CSV, as the file that names it may be made up.
static Span placeOf(const CheckedTable &source) { return source.isCsv ? source.text : source.span; }

bool Elaborator::placeFromTable() {
  bool failed = false;
  auto stages = declaredSize(evaluator, "stages", failed);
  auto microbatches = declaredSize(evaluator, "microbatches", failed);
  if (failed || (microbatches && !multiplySplits(*microbatches, program.sequenceSplits, diagnostics)))
    return false;
  program.devices = static_cast<uint32_t>(table.rows.size());
  size_t lastStage = 0, lastMicrobatch = 0; // the cells that speak of them first
  for (size_t i = 0; i < table.ops.size(); ++i) {
    const Op &op = table.ops[i];
    if (op.stage >= program.stages) {
      program.stages = op.stage + 1u;
      lastStage = i;
    }
    if (op.hasMicrobatch() && op.microbatch >= program.microbatches) {
      program.microbatches = op.microbatch + 1;
      lastMicrobatch = i;
    }
  }
  if (stages)
    program.stages = static_cast<uint32_t>(std::min<int64_t>(stages->value, maxStages));
  if (microbatches)
    program.microbatches = static_cast<uint32_t>(std::min<int64_t>(microbatches->value, 0x7fff'fffe));
  uint64_t pairs = static_cast<uint64_t>(program.stages) * program.microbatches;
  if (pairs == 0 || pairs > options.maxOps) {
    Finding &finding = diagnostics.report(
        Rule::ValueOutOfRange, placeOf(*schedule.table),
        {{"what", pairs == 0 ? "the table holds no op"
                             : fmt::format("the table speaks of {} stages and {} microbatches",
                                           program.stages, program.microbatches)}});
    if (pairs > 0) {
      const bool byStages = program.stages > program.microbatches;
      if (byStages ? !stages : !microbatches)
        finding.notes.push_back({fmt::format("the last {} stands here", byStages ? "stage" : "microbatch"),
                                 program.sites[table.siteOf[byStages ? lastStage : lastMicrobatch]].span,
                                 std::nullopt, ""});
      finding.fix.message = "smaller numbers, or a larger --max-ops";
    }
    return false;
  }
  // A pair lives where its forward is; a stage whose forward is missing, on the first device it shows on.
  std::vector<uint32_t> homeOf(program.stages, noDevice);
  std::vector<uint32_t> deviceOf(pairs, noDevice);
  for (uint32_t d = 0; d < table.rows.size(); ++d)
    for (const Op &op : table.opsOf(d)) {
      if (op.stage >= program.stages)
        continue; // reported by checkTable
      if (homeOf[op.stage] == noDevice)
        homeOf[op.stage] = d;
      if (op.kind != OpKind::Forward || op.microbatch >= program.microbatches)
        continue;
      uint32_t &place = deviceOf[static_cast<size_t>(op.microbatch) * program.stages + op.stage];
      if (place == noDevice)
        place = d;
    }
  std::vector<uint32_t> row(program.stages);
  for (uint32_t m = 0; m < program.microbatches; ++m) {
    for (uint32_t s = 0; s < program.stages; ++s) {
      uint32_t d = deviceOf[static_cast<size_t>(m) * program.stages + s];
      row[s] = d == noDevice ? homeOf[s] : d;
      if (row[s] == noDevice) {
        Finding &finding = diagnostics.report(Rule::MisplacedStage, placeOf(*schedule.table),
                                              {{"stage", std::to_string(s)},
                                               {"microbatches", fmt::format("microbatch {}", m)},
                                               {"devices", "no device"}});
        if (!stages)
          finding.notes.push_back({fmt::format("stage {} is the last one, from here", program.stages - 1),
                                   program.sites[table.siteOf[lastStage]].span, std::nullopt, ""});
        finding.fix.message = stages ? "a cell for each stage, or fewer stages in the model"
                                     : "a cell for each stage, or other stages in the cells";
        return false;
      }
    }
    program.placement.addMicrobatch(row);
  }
  program.placement.finish();
  return true;
}

bool Elaborator::checkTable() {
  // With `place` lines the sizes are theirs, and a cell may lie outside them.
  for (size_t d = program.devices; d < table.rows.size(); ++d)
    if (const TableText::Row &row = table.rows[d]; row.begin != row.end) {
      diagnostics.report(Rule::IndexOutOfRange, program.sites[table.siteOf[row.begin]].span,
                         {{"op", "the row"},
                          {"what", "device"},
                          {"index", std::to_string(d)},
                          {"bound", fmt::format("devices are 0 to {}", program.devices - 1)}});
      return false;
    }
  table.rows.resize(program.devices);
  for (uint32_t d = 0; d < program.devices; ++d)
    for (uint32_t i = table.rows[d].begin; i < table.rows[d].end; ++i) {
      const Op &op = table.ops[i];
      bool stage = op.stage >= program.stages;
      if (!stage && (!op.hasMicrobatch() || op.microbatch < program.microbatches))
        continue;
      Finding &finding =
          diagnostics.report(Rule::IndexOutOfRange, program.sites[table.siteOf[i]].span,
                             {{"op", str(op)},
                              {"what", stage ? "stage" : "microbatch"},
                              {"index", std::to_string(stage ? op.stage : op.microbatch)},
                              {"bound", fmt::format("{} are 0 to {}", stage ? "stages" : "microbatches",
                                                    (stage ? program.stages : program.microbatches) - 1)}});
      finding.device = d;
      finding.op = str(op);
      return false;
    }
  return true;
}

} // namespace sluice
