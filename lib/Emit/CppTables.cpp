#include "Emit/CppTables.h"

#include "Emit/CppRows.h"
#include "Passes/PackRows.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice {

namespace {

/// `constexpr Type name[] = {...};` under a comment, or nothing for no elements: C++ has no empty arrays.
std::string array(llvm::StringRef comment, llvm::StringRef type, llvm::StringRef name,
                  llvm::ArrayRef<std::string> lines) {
  if (lines.empty())
    return "";
  return fmt::format("// {}\nconstexpr {} {}[] = {{\n    {}\n}};\n\n", comment.str(), type.str(), name.str(),
                     llvm::join(lines, "\n    "));
}

/// `name`, or nothing where `array` writes nothing.
std::string reference(llvm::StringRef name, size_t size) { return size == 0 ? "{}" : name.str(); }

const char *enumerator(runtime::Pool pool) {
  static constexpr const char *names[runtime::poolCount] = {"Boundary", "Saved",   "Pending", "Host",
                                                            "Carry",    "Version", "Channel"};
  return names[static_cast<unsigned>(pool)];
}

constexpr llvm::StringRef rowComment = "op, flags, stage, microbatch, operands a, b, c, d";

std::string plainRows(const ExecutorTables &tables, const DeviceTable &device, const std::string &name) {
  std::vector<std::string> lines;
  lines.reserve(device.rows.size());
  for (const auto &[index, row] : llvm::enumerate(device.rows))
    lines.push_back(cppRow(row, index, tables));
  return array(rowComment, "Instruction", name, lines);
}

/// Rows with comments before and behind what repeats; each is numbered as the first one it stands for.
std::string packedRows(const ExecutorTables &tables, const PackedRows &packed, const std::string &name) {
  std::vector<std::string> lines;
  size_t index = 0;
  auto list = [&](size_t first, size_t end) {
    for (size_t row = first; row < end; ++row)
      lines.push_back(cppRow(packed.rows[row], index++, tables));
  };
  size_t at = 0;
  for (const runtime::Repeat &repeat : packed.repeats) {
    if (at != 0 && at < repeat.first)
      lines.push_back("// once:");
    list(at, repeat.first);
    lines.push_back(
        fmt::format("// {} times, microbatches {:+} each time:", repeat.times, repeat.microbatches));
    at = size_t{repeat.first} + repeat.rows;
    list(repeat.first, at);
    index += size_t{repeat.rows} * (repeat.times - 1);
  }
  if (at != 0 && at < packed.rows.size())
    lines.push_back("// once:");
  list(at, packed.rows.size());
  return array(rowComment, "Instruction", name, lines);
}

std::string repeatArrays(const PackedRows &packed, size_t number) {
  std::vector<std::string> repeats, moves;
  for (const runtime::Repeat &repeat : packed.repeats)
    repeats.push_back(fmt::format("{{{}, {}, {}, {}, {}}},", repeat.first, repeat.rows, repeat.times,
                                  repeat.microbatches, repeat.moves));
  for (const runtime::Move &move : packed.moves)
    moves.push_back(fmt::format("{{Pool::{}, {}, {}, {}, {}}},", enumerator(move.pool), move.first,
                                move.count, move.stride, move.shift));
  return array("first row listed, rows, times, microbatches further each time, moves",
               "sluice::runtime::Repeat", fmt::format("repeats{}", number), repeats) +
         array("pool, first operand, how many, how far apart, what is added each time",
               "sluice::runtime::Move", fmt::format("moves{}", number), moves);
}

/// Slots and names of one device's arrays.
std::string deviceLine(const DeviceTable &device, const PackedRows &packed, size_t number) {
  const bool repeats = !packed.repeats.empty();
  const bool more = device.hosts > 0 || device.carries > 0 || repeats;
  std::string line =
      fmt::format("{{{}, {}, {}, {}", reference(fmt::format("device{}", number), device.rows.size()),
                  device.boundaries, device.saveds, device.pendings);
  if (more)
    line += fmt::format(", {}, {}", device.hosts, device.carries);
  if (repeats)
    line += fmt::format(", repeats{}, {}", number,
                        reference(fmt::format("moves{}", number), packed.moves.size()));
  line += fmt::format("}}, // device {}: boundary, saved{} slots", number,
                      more ? ", pending, host and carry" : " and pending");
  return line;
}

std::string deviceArrays(const ExecutorTables &tables, size_t explicitRows, CppTables &result) {
  std::string text;
  std::vector<std::string> devices;
  for (const DeviceTable &device : tables.devices)
    result.rows += device.rows.size();
  const bool packs = result.rows > explicitRows;
  for (const auto &[number, device] : llvm::enumerate(tables.devices)) {
    const PackedRows packed = packs ? packRows(device.rows) : PackedRows();
    const std::string name = fmt::format("device{}", number);
    result.listed += packs ? packed.rows.size() : device.rows.size();
    text += packs ? packedRows(tables, packed, name) + repeatArrays(packed, number)
                  : plainRows(tables, device, name);
    devices.push_back(deviceLine(device, packed, number));
  }
  return text + array("rows, and how many slots they need", "sluice::runtime::Device", "devices", devices);
}

std::string fractions(llvm::StringRef comment, llvm::StringRef name, llvm::ArrayRef<Fraction> values) {
  std::vector<std::string> lines;
  for (const Fraction &value : values)
    lines.push_back(fmt::format("{}.0 / {}.0,", value.numerator, value.denominator));
  return array(comment, "double", name, lines);
}

std::string tieArrays(const ExecutorTables &tables) {
  std::string text;
  std::vector<std::string> ties;
  for (const auto &[number, tie] : llvm::enumerate(tables.ties)) {
    text += fmt::format("constexpr std::uint32_t tie{}[] = {{{}}};\n", number, fmt::join(tie.stages, ", "));
    ties.push_back(fmt::format("{{{}, tie{}, {}}},", cppQuoted(tie.name), number, tie.isLocal));
  }
  return text + array("tied weight, stages, whether one device has all of them", "sluice::runtime::Tie",
                      "ties", ties);
}

std::string modelArrays(const ExecutorTables &tables) {
  std::vector<std::string> channels, copies, skips;
  for (const runtime::Channel &channel : tables.channels)
    channels.push_back(fmt::format("{{{}, {}}},", channel.from, channel.to));
  const bool versions =
      llvm::any_of(tables.copies, [](const runtime::Copy &copy) { return copy.versions > 1; });
  for (const runtime::Copy &copy : tables.copies)
    copies.push_back(
        versions ? fmt::format("{{{}, {}, {}, {}}},", copy.stage, copy.device, copy.versions, copy.newest)
                 : fmt::format("{{{}, {}}},", copy.stage, copy.device));
  for (const runtime::Skip &skip : tables.skips)
    skips.push_back(fmt::format("{{{}, {}, {}}},", skip.from, skip.to, skip.hasGradient));
  return array("from, to", "sluice::runtime::Channel", "channels", channels) +
         array(versions ? "stage, device, versions of its weights, the newest at the end of a step"
                        : "stage, device",
               "sluice::runtime::Copy", "copies", copies) +
         array("skip edges: from stage, to stage, whether a gradient comes back", "sluice::runtime::Skip",
               "skips", skips) +
         tieArrays(tables);
}

/// `{.mean = true}`; empty where all is as by default.
std::string reductionText(const runtime::Reduction &reduction) {
  std::vector<std::string> members;
  if (reduction.mean)
    members.push_back(".mean = true");
  if (reduction.sharded)
    members.push_back(".sharded = true");
  if (reduction.copied)
    members.push_back(".copied = true");
  return members.empty() ? "" : "{" + llvm::join(members, ", ") + "}";
}

} // namespace

std::string cppQuoted(llvm::StringRef text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      result += '\\';
    result += c;
  }
  return result + '"';
}

CppTables cppTables(const ExecutorTables &tables, size_t explicitRows) {
  CppTables result;
  const std::string devices = deviceArrays(tables, explicitRows, result);
  result.text = "using sluice::runtime::Instruction;\nusing sluice::runtime::Op;\n";
  if (devices.find("Pool::") != std::string::npos)
    result.text += "using sluice::runtime::Pool;\n";
  if (devices.find(" none") != std::string::npos)
    result.text += "constexpr std::uint32_t none = sluice::runtime::noSlot;\n";
  result.text += "\n" + devices + modelArrays(tables);
  result.text += fractions("per microbatch: what its loss counts in the loss of the step", "lossFactors",
                           tables.lossFactors);
  result.text += fractions("what gradients are scaled by", "factors", tables.factors);
  return result;
}

std::string cppSchedule(const ExecutorTables &tables, llvm::StringRef provenance) {
  std::string text = fmt::format(
      "constinit const Schedule schedule = {{{{\n"
      "    .provenance = {},\n    .stages = {},\n    .microbatches = {},\n"
      "    .devices = devices,\n    .channels = {},\n    .copies = {},\n"
      "    .lossFactor = {},\n",
      provenance.str(), tables.stages, tables.microbatches, reference("channels", tables.channels.size()),
      reference("copies", tables.copies.size()), reference("lossFactors", tables.lossFactors.size()));
  auto member = [&](bool isThere, const char *name, const std::string &value) {
    if (isThere)
      text += fmt::format("    .{} = {},\n", name, value);
  };
  const std::string reduction = reductionText(tables.reduction);
  member(tables.splits != 1, "splits", fmt::to_string(tables.splits));
  member(tables.replicas != 1, "replicas", fmt::to_string(tables.replicas));
  member(!reduction.empty(), "reduction", reduction);
  member(!tables.factors.empty(), "factors", "factors");
  member(!tables.ties.empty(), "ties", "ties");
  member(!tables.skips.empty(), "skips", "skips");
  return text + "}};\n\n";
}

} // namespace sluice
