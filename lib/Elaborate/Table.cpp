// Tables: rows of cells, written in the file or read from a CSV.
#include "Elaborate/Cells.h"
#include "Elaborate/Elaborator.h"
#include "Elaborate/Placement.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice {

bool Elaborator::readCell(uint32_t d, llvm::StringRef text, uint32_t offset) {
  Cell cell = parseCell(text);
  Span span{offset, offset + static_cast<uint32_t>(std::max<size_t>(text.size(), 1))};
  if (cell.badAt != llvm::StringRef::npos) {
    llvm::StringRef rest = text.drop_front(cell.badAt), good = text.take_front(cell.badAt);
    if (rest.contains(':') && !good.contains('(')) {
      // The next row's label: a cell never holds a colon.
      diagnostics
          .report(Rule::SyntaxError, span,
                  {{"what", "\";\" after the row before"}, {"token", fmt::format("\"{}\"", text.str())}})
          .device = d;
      return false;
    }
    Finding &finding =
        diagnostics.report(Rule::BadCell, span,
                           {{"cell", text.str()},
                            {"from", rest.empty() ? "at its end: a number is missing"
                                                  : fmt::format("from \"{}\" on", rest.str())}});
    finding.device = d;
    auto isCell = [](llvm::StringRef candidate) {
      return !candidate.empty() && parseCell(candidate).badAt == llvm::StringRef::npos;
    };
    std::string upper = text.upper();
    finding.fix.message = isCell(upper)  ? fmt::format("\"{}\"?", upper)
                          : isCell(good) ? fmt::format("\"{}\"?", good.str())
                                         : "stage, one of F I W B, microbatch: 0F3; or (0F7;7B3)OVERLAP_F_B";
    return false;
  }
  auto site = static_cast<uint32_t>(program.sites.size());
  if (!cell.ops.empty())
    program.sites.push_back({span, 0});
  for (const Op &op : cell.ops) {
    table[d].push_back({op, site});
    program.isExplicit |= op.isCommunication(); // a table that says some of it says all of it
  }
  return true;
}

/// One row's cells; `offset` is where `cells` begins in the sources.
bool Elaborator::readRow(uint32_t d, llvm::StringRef cells, char separator, uint32_t offset) {
  bool good = true;
  const char *begin = cells.data();
  auto cellAt = [&](llvm::StringRef cell) {
    if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"')
      cell = cell.drop_front().drop_back();
    good &= readCell(d, cell, offset + static_cast<uint32_t>(cell.data() - begin));
  };
  if (separator == ',') {
    while (true) {
      auto [cell, rest] = cells.split(',');
      cellAt(cell.trim());
      if (cell.size() == cells.size())
        return good;
      cells = rest;
    }
  }
  while (!(cells = cells.ltrim()).empty()) {
    // An overlap's members may have blanks between them.
    size_t length = cells.starts_with("(") ? cells.find(')') : 0;
    length = length == llvm::StringRef::npos ? cells.size() : cells.find_first_of(" \t\r\n", length);
    llvm::StringRef cell = cells.take_front(length);
    cellAt(cell);
    cells = cells.drop_front(cell.size());
  }
  return good;
}

/// The same text with comments blanked out, so that offsets stay.
static std::string withoutComments(llvm::StringRef text) {
  std::string result = text.str();
  for (size_t i = 0; i + 1 < result.size(); ++i) {
    if (result[i] != '/' || (result[i + 1] != '/' && result[i + 1] != '*'))
      continue;
    bool line = result[i + 1] == '/';
    size_t end = line ? text.find('\n', i) : text.find("*/", i + 2);
    end = end == llvm::StringRef::npos ? result.size() : line ? end : end + 2;
    for (; i < end; ++i)
      if (result[i] != '\n')
        result[i] = ' ';
  }
  return result;
}

bool Elaborator::readTable() {
  const CheckedTable &source = *schedule.table;
  // Sites of a table's cells come after those of a device block beside it.
  bool good = true;
  if (source.isCsv) {
    llvm::StringRef text = sources.text(source.text).rtrim("\r\n \t,");
    uint32_t row = 0;
    for (llvm::StringRef rest = text; !rest.empty(); ++row) {
      auto [line, after] = rest.split('\n');
      auto offset = source.text.begin + static_cast<uint32_t>(line.data() - text.data());
      if (row == maxDevices) {
        diagnostics.report(Rule::IndexOutOfRange, {offset, offset + 1},
                           {{"op", "the row"},
                            {"what", "device"},
                            {"index", std::to_string(row)},
                            {"bound", fmt::format("devices are 0 to {}", maxDevices - 1)}});
        return false;
      }
      table.emplace_back();
      good &= readRow(row, line.rtrim('\r'), ',', offset);
      rest = after;
    }
  } else {
    std::string clean = withoutComments(sources.text(source.text));
    std::vector<bool> seen;
    for (llvm::StringRef rest = clean; !(rest = rest.ltrim()).empty();) {
      // `;` inside parentheses belongs to an overlap's cell.
      size_t end = 0;
      for (int depth = 0; end < rest.size() && (rest[end] != ';' || depth > 0); ++end)
        depth += rest[end] == '(' ? 1 : rest[end] == ')' ? -1 : 0;
      auto [label, cells] = rest.take_front(end).split(':');
      auto offset = [&](llvm::StringRef part) {
        return source.text.begin + static_cast<uint32_t>(part.data() - clean.data());
      };
      uint32_t row = 0;
      bool isRow = cells.data() != label.data() + label.size() && !label.trim().getAsInteger(10, row) &&
                   row < maxDevices;
      if (end == rest.size() && rest.contains('(') && rest.rfind('(') > rest.rfind(')') + 1) {
        size_t open = rest.rfind('(');
        diagnostics.report(Rule::SyntaxError,
                           {offset(rest.drop_front(open)), offset(rest.drop_front(open)) + 1},
                           {{"what", "\")\" for this bracket"}, {"token", "the end of the table"}});
        return false;
      }
      if (!isRow || end == rest.size()) {
        Span span{offset(rest),
                  offset(rest) + static_cast<uint32_t>(std::max<size_t>(label.rtrim().size(), 1))};
        diagnostics.report(Rule::SyntaxError, span,
                           {{"what", isRow ? "\";\" after the row" : "a row such as `0: 0F0 0B0;`"},
                            {"token", fmt::format("\"{}\"", label.trim().take_front(40).str())}});
        return false;
      }
      if (table.size() <= row)
        table.resize(row + 1);
      seen.resize(table.size());
      if (seen[row]) {
        Finding &finding = diagnostics.report(
            Rule::ProgramCount, {offset(label), offset(label) + static_cast<uint32_t>(label.size())},
            {{"device", std::to_string(row)},
             {"stages", "a row already"},
             {"programs", "gets another here"}});
        finding.device = row;
        finding.fix.message = "write one row for each device";
        good = false;
      }
      seen[row] = true;
      good &= readRow(row, cells, ' ', offset(cells));
      rest = rest.drop_front(end + 1);
    }
  }
  brokenSites.resize(static_cast<unsigned>(program.sites.size()));
  return good;
}

bool Elaborator::placeFromTable() {
  bool failed = false;
  auto stages = declaredSize(evaluator, "stages", failed);
  auto microbatches = declaredSize(evaluator, "microbatches", failed);
  if (failed)
    return false;
  program.devices = static_cast<uint32_t>(table.size());
  for (const std::vector<TableOp> &row : table)
    for (const TableOp &entry : row) {
      program.stages = std::max<uint32_t>(program.stages, entry.op.stage + 1u);
      if (entry.op.hasMicrobatch())
        program.microbatches = std::max(program.microbatches, entry.op.microbatch + 1);
    }
  if (stages)
    program.stages = static_cast<uint32_t>(std::min<int64_t>(stages->value, maxStages));
  if (microbatches)
    program.microbatches = static_cast<uint32_t>(std::min<int64_t>(microbatches->value, 0x7fff'fffe));
  uint64_t pairs = static_cast<uint64_t>(program.stages) * program.microbatches;
  if (pairs == 0 || pairs > options.maxOps) {
    diagnostics.report(Rule::ValueOutOfRange, schedule.table->span,
                       {{"what", pairs == 0 ? "the table holds no op"
                                            : fmt::format("the table speaks of {} stages and {} microbatches",
                                                          program.stages, program.microbatches)}});
    return false;
  }
  // A pair lives where its forward is; a stage whose forward is missing, on the first device it shows on.
  std::vector<uint32_t> homeOf(program.stages, noDevice);
  std::vector<uint32_t> deviceOf(pairs, noDevice);
  for (uint32_t d = 0; d < table.size(); ++d)
    for (const TableOp &entry : table[d]) {
      const Op &op = entry.op;
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
        diagnostics
            .report(Rule::MisplacedStage, schedule.table->span,
                    {{"stage", std::to_string(s)},
                     {"microbatches", fmt::format("microbatch {}", m)},
                     {"devices", "no device"}})
            .fix.message = "a cell for each stage, or fewer stages in the model";
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
  if (table.size() > program.devices) {
    for (size_t d = program.devices; d < table.size(); ++d)
      if (!table[d].empty()) {
        diagnostics.report(Rule::IndexOutOfRange, program.sites[table[d][0].site].span,
                           {{"op", "the row"},
                            {"what", "device"},
                            {"index", std::to_string(d)},
                            {"bound", fmt::format("devices are 0 to {}", program.devices - 1)}});
        return false;
      }
  }
  table.resize(program.devices);
  for (uint32_t d = 0; d < program.devices; ++d)
    for (const TableOp &entry : table[d]) {
      bool stage = entry.op.stage >= program.stages;
      if (!stage && (!entry.op.hasMicrobatch() || entry.op.microbatch < program.microbatches))
        continue;
      Finding &finding =
          diagnostics.report(Rule::IndexOutOfRange, program.sites[entry.site].span,
                             {{"op", str(entry.op)},
                              {"what", stage ? "stage" : "microbatch"},
                              {"index", std::to_string(stage ? entry.op.stage : entry.op.microbatch)},
                              {"bound", fmt::format("{} are 0 to {}", stage ? "stages" : "microbatches",
                                                    (stage ? program.stages : program.microbatches) - 1)}});
      finding.device = d;
      finding.op = str(entry.op);
      return false;
    }
  return true;
}

} // namespace sluice
