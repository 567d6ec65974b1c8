#include "Emit/Dot.h"

#include "Emit/Caption.h"
#include "Emit/Palette.h"
#include "Emit/Part.h"
#include "Emit/UnderWay.h"
#include "Timeline/CriticalPath.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

namespace {

std::string quoted(llvm::StringRef text) {
  std::string out = "\"";
  for (char c : text)
    out += c == '"' ? "\\\"" : c == '\\' ? "\\\\" : c == '\n' ? "\\n" : std::string(1, c);
  return out + '"';
}

/// Line styles tell kinds apart without colour; hues are those of the palette, darker.
struct EdgeStyle {
  const char *color, *style;
};
EdgeStyle styleOf(llvm::StringRef kind) {
  if (kind == "order")
    return {"#9aa3ad", "dotted"};
  if (kind == "activation")
    return {"#1f78b4", "solid"};
  if (kind == "gradient")
    return {"#b36b00", "solid"};
  if (kind == "saved")
    return {"#8c4a78", "dashed"};
  if (kind == "channel")
    return {"#1b1f24", "solid"};
  if (kind == "contribution")
    return {"#59636e", "dashed"};
  return {"#1a7f5f", "dashed"}; // half, split
}

class Graph {
public:
  Graph(const TimedSchedule &schedule, size_t number)
      : schedule(schedule), program(schedule.program), part(schedule), number(number) {
    OpId before = noOp;
    for (const CriticalStep &step :
         criticalPath(program, schedule.index, schedule.costs, schedule.timeline)) {
      critical.insert(step.op);
      if (before != noOp)
        binding[step.op] = Edge{step.via, before};
      before = step.op;
    }
    for (const UnderWay &item : underWay(schedule)) {
      const OpId consumer = program.isExplicit ? item.receive : item.consumer;
      if (item.kind != UnderWay::Kind::Message || consumer == noOp)
        continue;
      underWayFor[{firstOf(item.op), firstOf(consumer)}] = item.end - item.ready;
      if (program.isExplicit)
        sendOf[consumer] = item.op;
    }
  }

  uint32_t shownOps() const {
    uint32_t count = 0;
    forEachShown([&](uint32_t, OpId first, OpId end) { count += end - first; });
    return count;
  }

  std::string text() {
    std::string out = fmt::format("subgraph cluster_{} {{\n  label={};\n", number, quoted(caption()));
    uint32_t device = noDevice;
    forEachShown([&](uint32_t of, OpId first, OpId end) {
      if (of != device)
        out += fmt::format("{}  subgraph cluster_{}_{} {{\n    label=\"device {}\";\n",
                           device == noDevice ? "" : "  }\n", number, of, of);
      device = of;
      out += node(first, end);
    });
    if (device != noDevice)
      out += "  }\n";
    forEachShown([&](uint32_t of, OpId first, OpId end) { out += edgesInto(of, first, end); });
    return out + "}\n";
  }

private:
  template <typename See> void forEachShown(See see) const {
    for (uint32_t device = part.firstDevice; device < part.deviceEnd; ++device)
      for (OpId first = program.deviceBegin[device], end; first < program.deviceBegin[device + 1];
           first = end) {
        end = program.groupEnd(first);
        if (isShown(device, first))
          see(device, first, end);
      }
  }
  bool isShown(uint32_t device, OpId first) const {
    return part.has(device) &&
           part.meets(schedule.timeline.start(program, schedule.costs, first), schedule.timeline.end[first]);
  }
  OpId firstOf(OpId op) const {
    while (program.ops[op].has(OverlapFollower))
      --op;
    return op;
  }

  std::string caption() const {
    std::string text = captionTitle(schedule);
    for (const CaptionFigure &figure : captionFigures(schedule))
      text += fmt::format("\n{} {}{}", figure.name, figure.value,
                          figure.meaning.empty() ? "" : ": " + figure.meaning);
    for (const std::string &note : captionNotes(schedule))
      text += "\n" + note;
    return text + "\nbold: the critical path";
  }

  std::string node(OpId first, OpId end) const {
    std::string label;
    for (OpId op = first; op < end; ++op)
      label += (op == first ? "" : "\n& ") + str(program, op);
    const int64_t start = schedule.timeline.start(program, schedule.costs, first);
    label += "\n" + formatUnits(schedule.costs, start);
    if (schedule.timeline.end[first] > start)
      label += " to " + formatUnits(schedule.costs, schedule.timeline.end[first]);
    const Look look = lookOf(program, first, end);
    const bool isDark = look > Look::Overlap; // as Emit/Palette.h has it
    return fmt::format("    {} [label={}, fillcolor=\"#{:06x}\"{}{}];\n", name(first), quoted(label),
                       look == Look::Idle ? 0xffffffu
                       : isDark           ? info(look).deep
                                          : info(look).pale,
                       isDark ? ", fontcolor=white" : "", critical.contains(first) ? ", penwidth=3" : "");
  }
  std::string name(OpId first) const { return fmt::format("s{}_{}", number, first); }

  std::string edgesInto(uint32_t device, OpId first, OpId end) {
    std::string out;
    llvm::DenseSet<OpId> done; // of one pair the first kind
    auto add = [&](OpId from, llvm::StringRef kind) {
      if (from == noOp)
        return;
      from = firstOf(from);
      if (from != first && isShown(program.deviceOf(from), from) && done.insert(from).second)
        out += edge(from, first, kind);
    };
    for (OpId op = first; op < end; ++op)
      for (const Edge &input : inputsOf(program, schedule.index, program.ops[op]))
        add(input.from, sluice::name(input.kind));
    if (auto send = sendOf.find(first); send != sendOf.end())
      add(send->second, "channel");
    addContributions(device, first, add);
    if (first > program.deviceBegin[device])
      add(first - 1, sluice::name(EdgeKind::Order));
    if (auto before = binding.find(first); before != binding.end())
      add(before->second.from, sluice::name(before->second.kind)); // over other calls or messages of a queue
    return out;
  }
  /// Into a reduction those of its stage on this device, into an update the reduction before it.
  template <typename Add> void addContributions(uint32_t device, OpId op, Add add) const {
    const bool isUpdate = program.ops[op].kind == OpKind::Update;
    if (!isUpdate && program.ops[op].kind != OpKind::Reduce)
      return;
    for (OpId before = op; before-- > program.deviceBegin[device];) {
      const Op &other = program.ops[before];
      if (other.kind > OpKind::RecvGradient && other.stage != program.ops[op].stage)
        continue;
      if (other.kind == OpKind::Reduce || other.kind == OpKind::Update || other.kind == OpKind::Zero) {
        if (isUpdate && other.kind == OpKind::Reduce)
          add(before, sluice::name(EdgeKind::Contribution));
        return;
      }
      if (other.contributes() && other.stage == program.ops[op].stage)
        add(before, sluice::name(EdgeKind::Contribution));
    }
  }

  std::string edge(OpId from, OpId to, llvm::StringRef kind) const {
    std::string label = kind.str();
    if (auto time = underWayFor.find({from, to}); time != underWayFor.end() && time->second > 0)
      label += "\n" + formatUnits(schedule.costs, time->second);
    const EdgeStyle style = styleOf(kind);
    const bool isOrder = kind == "order"; // the arrow alone says it
    const auto before = binding.find(to);
    const bool isCritical = before != binding.end() && before->second.from == from;
    return fmt::format("  {} -> {} [{}color=\"{}\", style={}{}];\n", name(from), name(to),
                       isOrder ? "" : "label=" + quoted(label) + ", ", style.color, style.style,
                       isCritical ? ", penwidth=3" : "");
  }

  const TimedSchedule &schedule;
  const Program &program;
  const Part part;
  size_t number;
  llvm::DenseSet<OpId> critical;
  llvm::DenseMap<OpId, Edge> binding; // on the critical path: the step before and what it holds up
  llvm::DenseMap<OpId, OpId> sendOf;  // of a written receive
  llvm::DenseMap<std::pair<OpId, OpId>, int64_t> underWayFor;
};

} // namespace

llvm::Expected<std::string> dot(llvm::ArrayRef<TimedSchedule> schedules) {
  std::string out = "digraph sluice {\n"
                    "rankdir=LR; newrank=true; fontname=\"sans-serif\"; labeljust=l;\n"
                    "node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n"
                    "edge [fontname=\"sans-serif\", fontsize=8];\n";
  uint64_t ops = 0;
  std::vector<Graph> graphs;
  for (auto [number, schedule] : llvm::enumerate(schedules)) {
    graphs.emplace_back(schedule, number);
    ops += graphs.back().shownOps();
  }
  if (ops > maxDotOps)
    return llvm::createStringError(fmt::format(
        "a graph of {} ops cannot be read; up to {} are drawn: show fewer with --devices, --from and --to, "
        "--schedule, or a smaller M",
        ops, maxDotOps));
  for (Graph &graph : graphs)
    out += graph.text();
  return out + "}\n";
}

} // namespace sluice
