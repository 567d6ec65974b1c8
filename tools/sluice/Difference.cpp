#include "Difference.h"

#include "Emit/Chart.h"
#include "Formats/SettingWords.h"
#include "IR/Print.h"
#include "Support/Quantity.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice::tool {

/// 1: more is worse; -1: less is worse; 0: neither, as of the time that the ops themselves take.
static int badDirection(llvm::StringRef figure) {
  static constexpr llvm::StringRef good[] = {"utilization", "throughput", "steady_throughput"};
  // Periods of different numbers of microbatches say nothing beside each other.
  static constexpr llvm::StringRef neutral[] = {
      "ideal", "busy", "useful", "fill", "drain", "steady_period", "steady_microbatches"};
  return llvm::is_contained(good, figure) ? -1 : llvm::is_contained(neutral, figure) ? 0 : 1;
}

/// Per device there are more figures than a comparison of schedules wants: the parts of its time. So are
/// those of one critical path among several.
static bool isShown(const FigureInfo &figure) {
  if (figure.name == "critical_time" || figure.name == "sensitivity")
    return false;
  return figure.arity != FigureArity::Device || figure.name.starts_with("peak_");
}

static FigureChange changeOf(const FigureInfo &figure, const Instance &before, const Instance &after) {
  FigureChange change;
  change.figure = &figure;
  change.before = before.figures->valueInBaseUnits(figure.name);
  change.after = after.figures->valueInBaseUnits(figure.name);
  const bool isTimed = figure.unit == FigureUnit::Time || figure.unit == FigureUnit::Rate;
  change.isComparable =
      change.before && change.after && (!isTimed || before.costs.ticks == after.costs.ticks);
  if (!change.isComparable)
    return change;
  auto grown = subtract(*change.after, *change.before);
  if (!grown)
    return change;
  const int direction = badDirection(figure.name);
  change.isWorse = direction > 0 ? grown->num > 0 : direction < 0 && grown->num < 0;
  if (change.before->num != 0)
    change.relative = divide(*grown, *change.before);
  return change;
}

/// Equal down to what they name. A tied weight has its number in the op, and another name may have that.
static bool isSameOp(const Program &a, OpId left, const Program &b, OpId right) {
  const Op &op = a.ops[left];
  if (op != b.ops[right])
    return false;
  const bool namesMore =
      op.hasFactor() || op.namesPeer() || op.kind == OpKind::ReduceTied ||
      (op.kind == OpKind::Forward && !(a.namedVersions.empty() && b.namedVersions.empty()));
  return !namesMore || written(a, left) == written(b, right);
}

/// Settings of the training and of what blocks that are not the same: `scale = loss | scale = program`.
static std::vector<std::string> settingChanges(const CostModel &before, const CostModel &after) {
  std::vector<std::string> changes;
  auto add = [&](llvm::StringRef name, llvm::StringRef old, llvm::StringRef now) {
    auto said = [&](llvm::StringRef word) {
      return word.empty() ? name.str() + " not given" : fmt::format("{} = {}", name.str(), word.str());
    };
    if (old != now)
      changes.push_back(said(old) + " | " + said(now));
  };
  for (const SettingWords &setting : trainingWords())
    add(setting.name, setting.wordOf(before), setting.wordOf(after));
  add("transport or channel", before.transport, after.transport);
  for (const SettingWords &setting : clusterWords())
    add(setting.name, setting.wordOf(before), setting.wordOf(after));
  return changes;
}

Difference compare(const Instance &before, const Instance &after) {
  Difference difference;
  difference.before = &before;
  difference.after = &after;
  const Program &a = before.program, &b = after.program;
  for (uint32_t device = 0; device < std::max(a.devices, b.devices); ++device) {
    llvm::ArrayRef<Op> left = device < a.devices ? a.opsOf(device) : llvm::ArrayRef<Op>();
    llvm::ArrayRef<Op> right = device < b.devices ? b.opsOf(device) : llvm::ArrayRef<Op>();
    const auto shorter = static_cast<uint32_t>(std::min(left.size(), right.size()));
    uint32_t position = 0;
    while (position < shorter &&
           isSameOp(a, a.deviceBegin[device] + position, b, b.deviceBegin[device] + position))
      ++position;
    if (position == left.size() && position == right.size())
      continue;
    difference.ops.push_back({device, position,
                              position == left.size() ? noOp : a.deviceBegin[device] + position,
                              position == right.size() ? noOp : b.deviceBegin[device] + position});
  }
  difference.hasOtherSettings = difference.ops.empty() && !equal(a, b);
  if (before.figures && after.figures)
    for (const FigureInfo &figure : allFigures())
      if (isShown(figure))
        difference.figures.push_back(changeOf(figure, before, after));
  return difference;
}

static std::string titleOf(const Instance &instance, const std::string &path) {
  std::string parameters = instance.parameterText();
  return fmt::format("{}{}{} ({})", instance.name, parameters.empty() ? "" : " at ", parameters,
                     path == "-" ? "<stdin>" : path);
}

static std::string placeOf(const Program &program, OpId op, const SourceManager &sources) {
  if (op == noOp || !program.spanOf(op).isValid())
    return "";
  Location place = sources.locate(program.spanOf(op).begin);
  return fmt::format("{}:{}:{}", place.file.str(), place.line, place.column);
}

static std::string opAt(const Program &program, OpId op, const SourceManager &sources) {
  if (op == noOp)
    return "nothing more";
  std::string place = placeOf(program, op, sources);
  return written(program, op) + (place.empty() ? "" : " at " + place);
}

static std::string valueText(const FigureChange &change, const std::optional<Rational> &value,
                             const Instance &instance) {
  if (!value)
    return "-";
  switch (change.figure->unit) {
  case FigureUnit::Time:
    return instance.costs.ticks ? fmt::format("{} {}", value->str(), *value == 1 ? "tick" : "ticks")
                                : formatTime(*value);
  case FigureUnit::Ratio:
    return percentText(*value);
  case FigureUnit::Size:
    return formatSize(*value);
  case FigureUnit::Rate: {
    auto perSecond = instance.costs.ticks ? value : multiply(*value, Rational(1'000'000'000));
    return (perSecond ? perSecond->decimal(6) : value->str()) + (instance.costs.ticks ? " /tick" : " /s");
  }
  default:
    return value->str();
  }
}

static std::string changeText(const FigureChange &change) {
  if (!change.before || !change.after)
    return change.isSame() ? "" : "only one has it";
  if (!change.isComparable)
    return change.before && change.after ? "other units" : "only one has it";
  if (!change.relative)
    return change.isSame() ? "" : "from 0";
  return fmt::format("{:+.2f} %", 100 * change.relative->toDouble());
}

std::string differenceText(const Difference &difference, const SourceManager &oldSources,
                           const SourceManager &newSources, const std::string &oldPath,
                           const std::string &newPath, bool withOps) {
  const Instance &before = *difference.before, &after = *difference.after;
  std::string out = fmt::format("{}\n{}\n\n", titleOf(before, oldPath), titleOf(after, newPath));
  if (withOps) {
    constexpr size_t mostDevices = 32;
    for (const OpDifference &op : llvm::ArrayRef(difference.ops).take_front(mostDevices))
      out +=
          fmt::format("  device {}, op {}: {} | {}\n", op.device, op.position,
                      opAt(before.program, op.before, oldSources), opAt(after.program, op.after, newSources));
    if (difference.ops.size() > mostDevices)
      out += fmt::format("  ... and {} more devices\n", difference.ops.size() - mostDevices);
    if (difference.hasOtherSettings)
      out += "  the same ops on every device, but other versions, buffers, splits, edges, tied weights, "
             "phase or "
             "placement\n";
    else if (difference.ops.empty())
      out += "  the same ops on every device\n";
    for (const std::string &change : settingChanges(before.costs, after.costs))
      out += "  " + change + "\n";
    out += "\n";
  }
  if (difference.figures.empty())
    return out + "  no figures: one of the two does not run to its end\n";
  size_t same = 0;
  std::vector<std::array<std::string, 4>> rows;
  for (const FigureChange &change : difference.figures) {
    if (change.isSame() || (!change.before && !change.after)) {
      same += change.isSame();
      continue;
    }
    rows.push_back({change.figure->name.str(), valueText(change, change.before, before),
                    valueText(change, change.after, after), changeText(change)});
  }
  if (!rows.empty()) {
    rows.insert(rows.begin(), {"figure", "old", "new", "change"});
    std::array<size_t, 4> widths = {};
    for (const auto &row : rows)
      for (size_t i = 0; i < row.size(); ++i)
        widths[i] = std::max(widths[i], row[i].size());
    for (const auto &row : rows)
      out += llvm::StringRef(fmt::format("  {:<{}}  {:>{}}  {:>{}}  {:>{}}", row[0], widths[0], row[1],
                                         widths[1], row[2], widths[2], row[3], widths[3]))
                 .rtrim()
                 .str() +
             "\n";
  }
  return out + fmt::format("  {}{} the same\n", same, same == 1 ? " figure is" : " figures are");
}

//===-- JSON --------------------------------------------------------------------------------------===//

static void writeOp(llvm::json::OStream &json, const char *key, const Program &program, OpId op,
                    const SourceManager &sources) {
  json.attributeBegin(key);
  if (op == noOp)
    json.value(nullptr);
  else
    json.object([&] {
      json.attribute("op", written(program, op));
      if (program.spanOf(op).isValid()) {
        Location place = sources.locate(program.spanOf(op).begin);
        json.attribute("file", place.file);
        json.attribute("line", place.line);
        json.attribute("column", place.column);
      }
    });
  json.attributeEnd();
}

static void writeNumber(llvm::json::OStream &json, const char *key, const std::optional<Rational> &value) {
  json.attributeBegin(key);
  if (!value)
    json.value(nullptr);
  else
    json.object([&] {
      json.attribute("exact", value->str());
      json.attributeBegin("value");
      json.rawValue(fmt::format("{}", value->toDouble())); // shortest text that reads back equal
      json.attributeEnd();
    });
  json.attributeEnd();
}

static const char *unitText(const FigureChange &change, const Instance &instance) {
  switch (change.figure->unit) {
  case FigureUnit::Time:
    return instance.costs.ticks ? "tick" : "ns";
  case FigureUnit::Rate:
    return instance.costs.ticks ? "1/tick" : "1/ns";
  case FigureUnit::Size:
    return "B";
  default:
    return "1";
  }
}

std::string differenceJson(llvm::ArrayRef<Difference> differences, const SourceManager &oldSources,
                           const SourceManager &newSources) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream json(stream, 2);
  json.object([&] {
    json.attribute("version", 1);
    json.attributeArray("schedules", [&] {
      for (const Difference &difference : differences)
        json.object([&] {
          const Instance &before = *difference.before, &after = *difference.after;
          json.attribute("old", before.name);
          json.attribute("new", after.name);
          json.attribute("same_ops", difference.hasSameOps());
          json.attributeArray("devices", [&] {
            for (const OpDifference &op : difference.ops)
              json.object([&] {
                json.attribute("device", op.device);
                json.attribute("position", op.position);
                writeOp(json, "old", before.program, op.before, oldSources);
                writeOp(json, "new", after.program, op.after, newSources);
              });
          });
          json.attributeArray("settings", [&] {
            for (const std::string &change : settingChanges(before.costs, after.costs))
              json.value(change);
          });
          json.attributeObject("figures", [&] {
            for (const FigureChange &change : difference.figures)
              if (change.before || change.after)
                json.attributeObject(change.figure->name, [&] {
                  // Of a figure that one side alone has, the unit is that side's.
                  const bool isAlone = !change.before || !change.after;
                  json.attribute("unit", isAlone ? unitText(change, change.before ? before : after)
                                         : change.isComparable ? unitText(change, before)
                                                               : "differs");
                  writeNumber(json, "old", change.before);
                  writeNumber(json, "new", change.after);
                  writeNumber(json, "relative", change.relative);
                  json.attribute("worse", change.isWorse);
                });
          });
        });
    });
  });
  stream << "\n";
  return text;
}

} // namespace sluice::tool
