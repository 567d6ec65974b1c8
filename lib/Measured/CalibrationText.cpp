#include "Measured/Calibration.h"

#include "Emit/Columns.h"
#include "Emit/TimeText.h"
#include "IR/Profile.h"
#include "Measured/Explain.h"
#include "Support/Quantity.h"
#include "Support/Words.h"
#include "Timeline/Figures.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <fmt/format.h>

namespace sluice {

/// Microseconds for people.
static std::string shown(const Rational &microseconds) {
  auto time = multiply(microseconds, Rational(1000));
  return time ? formatTime(*time) : microseconds.decimal(3) + " us";
}

/// Microseconds as JSON writes them; what no decimal is equal to is rounded to a millionth.
static std::string number(const Rational &microseconds) {
  const std::string text = exactText(microseconds);
  return llvm::StringRef(text).contains('/') ? microseconds.decimal(6) : text;
}

std::string profileText(const Calibration &calibration) {
  std::string text = "{\n  \"version\": 1,\n  \"time_unit\": \"us\",\n  \"ops\": {";
  std::optional<size_t> open;
  for (const auto &[key, points] : calibration.ops) {
    const auto &[op, stage] = key;
    if (open != op)
      text += fmt::format("{}    \"{}\": [\n", open ? "\n    ],\n" : "\n", profileOps()[op].str());
    else
      text += ",\n";
    open = op;
    std::string samples, times;
    for (const MeasuredPoint &point : points) {
      if (point.samples >= 0)
        samples += (samples.empty() ? "" : ", ") + std::to_string(point.samples);
      times += (times.empty() ? "" : ", ") + number(point.time);
    }
    const bool isOne = points.size() == 1 && samples.empty();
    text += fmt::format("      {{\"stage\": {}, {}\"time\": {}}}", stage,
                        samples.empty() ? "" : fmt::format("\"samples\": [{}], ", samples),
                        isOne ? times : "[" + times + "]");
  }
  return text + (open ? "\n    ]" : "") + "\n  }\n}\n";
}

std::string calibrationText(const Calibration &calibration) {
  std::string text = fmt::format("medians over {}{}\n\n", counted(calibration.steps, "step", "steps"),
                                 calibration.leavesFirstOut ? " behind the first, which is left out" : "");
  std::vector<std::vector<std::string>> rows = {
      {"op", "samples", "count", "median", "least", "most", "outliers"}};
  for (const auto &[key, points] : calibration.ops)
    for (const MeasuredPoint &point : points)
      rows.push_back({fmt::format("{}({})", profileOps()[key.first].str(), key.second),
                      point.samples < 0 ? "" : std::to_string(point.samples), std::to_string(point.count),
                      shown(point.time), shown(point.least), shown(point.most),
                      point.outliers == 0
                          ? ""
                          : fmt::format("{}, longest in step {}", point.outliers, point.worstStep)});
  text += inColumns(rows);
  if (llvm::any_of(calibration.ops, [](const auto &entry) {
        return llvm::any_of(entry.second, [](const MeasuredPoint &point) { return point.outliers > 0; });
      }))
    text += "\n  outliers took more than one and a half times the median, which they hardly move\n";
  if (calibration.steps == 1 && !calibration.leavesFirstOut)
    text += "\n  note: one step was measured, so what it does for the first time counts\n";
  if (calibration.overlaps > 0)
    text += fmt::format("\n  note: {} left out: a profile holds no time of several ops at once; measure them "
                        "apart\n",
                        counted(calibration.overlaps, "overlap is", "overlaps are"));
  for (const auto &[word, time] : calibration.others)
    text +=
        fmt::format("\n  note: {} takes {} in all, which a profile does not hold: give it in the file, where "
                    "it has a setting\n",
                    word, shown(time));
  return text;
}

namespace {
struct Line {
  double latency = 0, perByte = 0; // nanoseconds
};
} // namespace

/// The straight line nearest to (bytes, time); nothing for points of one size.
static std::optional<Line> lineThrough(llvm::ArrayRef<std::pair<double, double>> points) {
  double x = 0, y = 0, xx = 0, xy = 0;
  for (auto [bytes, time] : points) {
    x += bytes;
    y += time;
  }
  const auto count = static_cast<double>(points.size());
  x /= count;
  y /= count;
  for (auto [bytes, time] : points) {
    xx += (bytes - x) * (bytes - x);
    xy += (bytes - x) * (time - y);
  }
  if (xx == 0 || xy <= 0)
    return std::nullopt;
  return Line{y - x * xy / xx, xy / xx};
}

std::string linksText(const Measurement &measurement) {
  if (measurement.messages.empty())
    return "\n  links: the trace has no messages whose both ends are known\n";
  const Program &program = measurement.program;
  const auto nanoseconds = [&](int64_t time) {
    auto base = multiply(Rational(time), measurement.costs.unit);
    return base ? base->toDouble() : 0.0;
  };
  // The shortest of each size between two devices: what it took when nothing held it up.
  std::map<std::pair<uint32_t, uint32_t>, std::map<int64_t, std::pair<int64_t, uint64_t>>> least;
  for (const MessageRun &message : measurement.messages) {
    int64_t bytes = message.bytes;
    const StageTable<int64_t> &boundary = measurement.costs.boundary;
    const uint32_t maker = message.isGradient ? message.to : message.from;
    const bool isNeighbour = message.from + 1 == message.to || message.to + 1 == message.from;
    if (bytes < 0 && isNeighbour && maker < boundary.stageCount() &&
        boundary.at(maker, message.microbatch) > 0)
      bytes = boundary.at(maker, message.microbatch);
    auto &[time, count] = least[{program.deviceOf(message.from, message.microbatch),
                                 program.deviceOf(message.to, message.microbatch)}]
                              .try_emplace(bytes, message.ownTime(), 0)
                              .first->second;
    time = std::min(time, message.ownTime());
    ++count;
  }
  std::string text = "\n  links, by the shortest message of each size:\n";
  for (const auto &[devices, sizes] : least) {
    std::vector<std::pair<double, double>> points;
    uint64_t count = 0;
    for (const auto &[bytes, shortest] : sizes) {
      count += shortest.second;
      if (bytes >= 0)
        points.push_back({static_cast<double>(bytes), nanoseconds(shortest.first)});
    }
    const auto line = points.empty() ? std::nullopt : lineThrough(points);
    text += fmt::format("    {} -> {}: {}, ", devices.first, devices.second,
                        counted(count, "message", "messages"));
    const std::string shortest = formatUnits(measurement.costs, Rational(sizes.begin()->second.first));
    if (line)
      text += fmt::format("latency {}, bandwidth {}/s\n",
                          formatTime(Rational(std::max<int64_t>(std::llround(line->latency), 0))),
                          formatSize(Rational(std::llround(1e9 / line->perByte))));
    else if (points.empty())
      text += fmt::format("{} at least; sizes are not known: `boundary` in the file gives them\n", shortest);
    else
      text += fmt::format("{} for {}; latency and bandwidth are told apart by messages of several sizes\n",
                          shortest, formatSize(Rational(sizes.rbegin()->first)));
  }
  return text;
}

} // namespace sluice
