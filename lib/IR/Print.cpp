#include "IR/Print.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <map>

namespace sluice {

/// But for the version.
static std::string suffixes(const Program &program, OpId id) {
  const Op &op = program.ops[id];
  std::string text;
  if (op.kind == OpKind::Forward || op.kind == OpKind::Drop)
    text += op.has(KeepInput) ? " keep input" : op.has(KeepNothing) ? " keep nothing" : "";
  if (op.kind == OpKind::Recompute && op.has(Replay))
    text += " replay";
  if (op.kind != OpKind::Scale && op.hasFactor())
    text += fmt::format(" scale {}", program.factorOf(id).str());
  if (op.overwrites())
    text += " overwrite";
  return text;
}

/// Of the ops of a program, in order: ` using version 2`.
class VersionSuffixes {
public:
  explicit VersionSuffixes(const Program &program) : next(program.namedVersions) {}
  /// To call with ascending ops.
  std::string of(OpId op) {
    if (next.empty() || next.front().op != op)
      return "";
    std::string text = fmt::format(" using version {}", next.front().version);
    next = next.drop_front();
    return text;
  }

private:
  llvm::ArrayRef<NamedVersion> next;
};

/// Per stage of one device, what its reductions and updates depend on.
struct Contributions {
  unsigned count = 0;
  OpId reduction = noOp;
};

/// What must be done before a reduction or update: the contributions or reduction before it on its device.
static std::string contributionEdge(const Op &op, OpId id, Contributions &before) {
  std::string text;
  bool isUpdate = op.kind == OpKind::Update;
  if (isUpdate && before.reduction != noOp)
    text = fmt::format("  contribution %{}", before.reduction);
  else if ((isUpdate || op.kind == OpKind::Reduce) && before.count > 0)
    text = fmt::format("  contribution of {} backwards", before.count);
  before.count += op.contributes();
  if (op.kind == OpKind::Reduce)
    before.reduction = id;
  return text;
}

std::string written(const Program &program, OpId id) {
  std::string text = str(program, id) + suffixes(program, id);
  auto named = std::lower_bound(program.namedVersions.begin(), program.namedVersions.end(), id,
                                [](const NamedVersion &version, OpId op) { return version.op < op; });
  if (named != program.namedVersions.end() && named->op == id)
    text += fmt::format(" using version {}", named->version);
  return text;
}

std::string printIr(const Program &program, const ProgramIndex &index, const SourceManager *sources) {
  std::string out;
  auto to = std::back_inserter(out);
  fmt::format_to(to, "program {}: {} stages, {} microbatches, {} devices, {} ops\n", program.name,
                 program.stages, program.microbatches, program.devices, program.size());
  VersionSuffixes versions(program);
  for (uint32_t device = 0; device < program.devices; ++device) {
    fmt::format_to(to, "device {}\n", device);
    std::map<uint32_t, Contributions> ofStage;
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
      const Op &op = program.ops[id];
      std::string text =
          fmt::format("  %{:<5} {}{}{}{}", id, op.has(OverlapFollower) || op.has(GroupFollower) ? "& " : "",
                      str(program, id), suffixes(program, id), versions.of(id));
      for (const Edge &edge : inputsOf(program, index, op))
        text += fmt::format("  {} %{}", name(edge.kind).str(), edge.from);
      text += contributionEdge(op, id, ofStage[op.stage]);
      if (sources && program.spanOf(id).isValid()) {
        Location place = sources->locate(program.spanOf(id).begin);
        text += fmt::format("  at {}:{}", place.line, place.column);
        for (const auto &[loop, value] : program.loopsOf(id))
          text += fmt::format(" {}={}", loop, value);
      }
      out += text;
      out += '\n';
    }
  }
  return out;
}

/// `place` lines for all pairs: per distinct row, its microbatches as few arithmetic sequences.
static void printPlacement(const Program &program, std::string &out) {
  std::vector<std::vector<uint32_t>> microbatchesOf(program.placement.rowCount());
  for (uint32_t m = 0; m < program.microbatches; ++m)
    microbatchesOf[program.placement.row(m)].push_back(m);
  for (uint32_t row = 0; row < microbatchesOf.size(); ++row) {
    std::vector<std::string> devices;
    bool same = true;
    for (uint32_t s = 0; s < program.stages; ++s) {
      devices.push_back(std::to_string(program.placement.inRow(row, s)));
      same = same && program.placement.inRow(row, s) == s;
    }
    std::string expr = same ? "s" : fmt::format("[{}][s]", llvm::join(devices, ", "));
    const std::vector<uint32_t> &list = microbatchesOf[row];
    for (size_t i = 0; i < list.size();) {
      uint32_t step = i + 1 < list.size() ? list[i + 1] - list[i] : 1;
      size_t end = i + 1;
      while (end < list.size() && list[end] - list[end - 1] == step)
        ++end;
      out += fmt::format("  place s in 0..{} on {} for m in {}..{}{};\n", program.stages, expr, list[i],
                         list[end - 1] + 1, step == 1 ? "" : fmt::format(" by {}", step));
      i = end;
    }
  }
}

/// `buffer` as a remainder by stage where it is one, else as a list for each microbatch.
static void printBuffers(const Program &program, std::string &out) {
  if (program.buffers.empty())
    return;
  std::vector<uint32_t> counts(program.stages, 1);
  for (uint32_t row = 0; row < program.buffers.rowCount(); ++row)
    for (uint32_t s = 0; s < program.stages; ++s)
      counts[s] = std::max(counts[s], program.buffers.inRow(row, s) + 1);
  bool areRemainders = true;
  for (uint32_t m = 0; m < program.microbatches && areRemainders; ++m)
    for (uint32_t s = 0; s < program.stages; ++s)
      areRemainders = areRemainders && program.buffers.at(s, m) == m % counts[s];
  if (areRemainders) {
    out += fmt::format("  buffer(s, m) = mod(m, [{}][s]);\n", fmt::join(counts, ", "));
    return;
  }
  std::vector<std::string> rows;
  for (uint32_t m = 0; m < program.microbatches; ++m) {
    std::vector<uint32_t> row(program.stages);
    for (uint32_t s = 0; s < program.stages; ++s)
      row[s] = program.buffers.at(s, m);
    rows.push_back(fmt::format("[{}]", fmt::join(row, ", ")));
  }
  out += fmt::format("  buffer(s, m) = [{}][m][s];\n", llvm::join(rows, ", "));
}

static void printSettings(const Program &program, std::string &out) {
  if (program.isExplicit)
    out += "  communication = explicit;\n";
  if (program.isEvaluation)
    out += "  phase = evaluation;\n";
  if (program.sequenceSplits > 1)
    out += fmt::format("  sequence_splits = {};\n", program.sequenceSplits);
  if (program.mostVersions > 0)
    out += fmt::format("  versions = stashed({});\n", program.mostVersions);
  else if (program.versions != VersionRule::Stashed)
    out += fmt::format("  versions = {};\n", name(program.versions).str());
  printBuffers(program, out);
}

std::string printStructure(const Program &program) {
  std::string out;
  for (const SkipEdge &skip : program.skips)
    out +=
        fmt::format("  edge {} -> {}{}\n", skip.from, skip.to, skip.hasGradient ? ";" : " { no_gradient; }");
  for (const TiedWeight &tied : program.ties)
    out += fmt::format("  tied {} on {};\n", tied.name, fmt::join(tied.stages, ", "));
  return out;
}

std::string printSluice(const Program &program) {
  const std::string structure = printStructure(program);
  if (structure.empty())
    return printSchedule(program);
  return fmt::format("model {{\n  forward = 1;\n  backward_input = 1;\n  backward_weight = 1;\n{}}}\n\n{}",
                     structure, printSchedule(program));
}

std::string printSchedule(const Program &program) {
  std::string out = fmt::format("schedule {} {{\n", program.name);
  printSettings(program, out);
  VersionSuffixes versions(program);
  printPlacement(program, out);
  for (uint32_t device = 0; device < program.devices; ++device) {
    if (program.opsOf(device).empty() && program.stagesOn(device).empty())
      continue;
    out += fmt::format("\n  device {} {{\n", device);
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1];) {
      const Op &first = program.ops[id];
      bool isBlock = first.has(OverlapFirst) || first.has(GroupFirst);
      OpId end = first.has(GroupFirst) ? program.postedEnd(id) : program.groupEnd(id);
      out += first.has(OverlapFirst) ? "    overlap {" : first.has(GroupFirst) ? "    group {" : "    ";
      for (OpId member = id; member < end; ++member)
        out += fmt::format("{}{}{}{};", isBlock ? " " : "", str(program, member), suffixes(program, member),
                           versions.of(member));
      out += isBlock ? " }\n" : "\n";
      id = end;
    }
    out += "  }\n";
  }
  return out + "}\n";
}

} // namespace sluice
