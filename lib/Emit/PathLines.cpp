#include "Emit/FiguresLines.h"

#include "Support/Quantity.h"
#include "Timeline/MessageTime.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice {

static constexpr size_t mostShown = 4; // stages of one line

static std::string counted(uint64_t count, llvm::StringRef noun) {
  return fmt::format("{} {}{}", count, noun.str(), count == 1 ? "" : "s");
}

/// `link ib`, `link`, `host`.
static std::string linkWords(const CostModel &costs, uint32_t link) {
  const llvm::StringRef name = linkName(costs, link);
  const bool saysIt = link == noLink || name.starts_with("link") || name.starts_with("host");
  return (saysIt ? "" : "link ") + name.str();
}

/// Joined by commas, no row longer than what a window of 100 columns leaves.
static std::vector<std::string> wrapped(llvm::ArrayRef<std::string> parts) {
  constexpr size_t most = 79; // and a comma
  std::vector<std::string> rows;
  for (const std::string &part : parts) {
    if (rows.empty()) {
      rows.push_back(part);
      continue;
    }
    rows.back() += ",";
    if (rows.back().size() + part.size() + 1 > most)
      rows.push_back(part);
    else
      rows.back() += " " + part;
  }
  return rows;
}

/// `stage 3 240 ms, stage 0 30 ms, 6 more stages 90 ms`: the largest first, without those of 0.
static std::vector<std::string> largestStages(const CostModel &costs, llvm::ArrayRef<Rational> times,
                                              bool addsUp) {
  std::vector<uint32_t> order;
  for (uint32_t stage = 0; stage < times.size(); ++stage)
    if (times[stage] != 0)
      order.push_back(stage);
  llvm::stable_sort(order, [&](uint32_t a, uint32_t b) { return times[a] > times[b]; });
  const size_t shown = order.size() == mostShown + 1 ? order.size() : std::min(order.size(), mostShown);
  std::vector<std::string> parts;
  for (uint32_t stage : llvm::ArrayRef(order).take_front(shown))
    parts.push_back(fmt::format("stage {} {}", stage, formatUnits(costs, times[stage])));
  if (shown == order.size())
    return parts;
  std::optional<Rational> rest = Rational(0);
  for (uint32_t stage : llvm::ArrayRef(order).drop_front(shown))
    rest = rest ? add(*rest, times[stage]) : std::nullopt;
  parts.push_back(counted(order.size() - shown, "more stage") +
                  (addsUp && rest ? " " + formatUnits(costs, *rest) : " less each"));
  return parts;
}

std::vector<std::string> pathRows(const CostModel &costs, const Figures &figures) {
  const Makeup &makeup = figures.makeup;
  std::vector<Rational> stages;
  for (uint32_t stage = 0; stage < makeup.stages.size(); ++stage)
    stages.push_back(makeup.timeOf(stage));
  std::vector<std::string> parts = largestStages(costs, stages, true);
  auto add = [&](const std::string &name, int64_t time) {
    if (time != 0)
      parts.push_back(fmt::format("{} {}", name, formatUnits(costs, Rational(time))));
  };
  for (const PathLink &link : makeup.links)
    add(linkWords(costs, link.link), link.sum());
  add("collectives", makeup.collectives);
  add("host", makeup.host);
  const std::string ops = counted(makeup.ops, "op");
  if (parts.empty())
    return {ops};
  parts.front() = ops + ": " + parts.front();
  std::vector<std::string> rows = wrapped(parts);

  parts.clear();
  for (unsigned kind = 0; kind < Makeup::kindCount; ++kind)
    add(pathKindName(kind).str(), makeup.kinds[kind]);
  add("updates", makeup.updates());
  int64_t latency = 0, moving = 0, queueing = 0;
  for (const PathLink &link : makeup.links) {
    latency += link.latency;
    moving += link.moving;
    queueing += link.queueing;
  }
  add("latency", latency);
  add("moving", moving);
  add("queueing", queueing);
  llvm::append_range(rows, wrapped(parts));
  return rows;
}

std::vector<std::string> sensitivityRows(const Program &program, const CostModel &costs,
                                         const Figures &figures) {
  if (!figures.sensitivity && sensitivityWork(program, costs) > shownUnasked)
    return {fmt::format("--sensitivity tells, with up to {} more timelines",
                        program.stages + costs.links.size())};
  if (!figures.sensitivity)
    return {};
  const Sensitivity &sensitivity = *figures.sensitivity;
  std::vector<std::string> parts = largestStages(costs, sensitivity.stages, false);
  // Only the first says the verb.
  for (std::string &part : llvm::MutableArrayRef(parts).take_front(1))
    part.insert(part.find(' ', part.find(' ') + 1), " saves");
  auto add = [&](const std::string &name, const Rational &gain) {
    if (gain != 0)
      parts.push_back(fmt::format("{}{} {}", name, parts.empty() ? " saves" : "", formatUnits(costs, gain)));
  };
  for (const LinkSensitivity &link : sensitivity.links)
    add(linkWords(costs, link.link), link.gain);
  if (sensitivity.collectives)
    add("collectives", *sensitivity.collectives);
  if (parts.empty())
    return {"no stage or link by itself saves time"};
  return wrapped(parts);
}

std::string linkLines(const CostModel &costs, const Figures &figures) {
  std::string text;
  for (const LinkTraffic &traffic : figures.links) {
    if (traffic.link == noLink)
      continue;
    const LinkKind &link = costs.links[traffic.link];
    std::string line = fmt::format("{}", traffic.transfers);
    if (figures.missingSetting("bytes_moved").empty())
      line += ", " + formatSize(traffic.bytes);
    if (auto part = Rational::make(traffic.busiest, figures.makespan); part && traffic.busiest != 0) {
      line += fmt::format("; {} moves for {} = {} % of makespan",
                          traffic.lanes == 1 ? "its lane" : fmt::format("busiest of {} lanes", traffic.lanes),
                          formatUnits(costs, Rational(traffic.busiest)),
                          multiply(*part, Rational(100)).value_or(Rational()).decimal(2));
      if (*part > 1 && link.sharing == Sharing::No)
        line += ", several at once as it is not shared";
    }
    text += fmt::format("    {:<16}{}\n", linkWords(costs, traffic.link), line);
  }
  return text;
}

} // namespace sluice
