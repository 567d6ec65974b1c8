#include "Emit/HtmlSchedule.h"

#include "Emit/PackedColumn.h"
#include "IR/Versions.h"
#include "Support/Quantity.h"
#include "Timeline/Slack.h"
#include "Timeline/Transfers.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace sluice {

HtmlSchedule::HtmlSchedule(const TimedSchedule &schedule)
    : schedule(schedule), program(schedule.program), costs(schedule.costs), timeline(schedule.timeline),
      firstDevice(std::min(schedule.part.firstDevice, program.devices)),
      deviceEnd(std::min(schedule.part.deviceEnd, program.devices)) {
  from = std::clamp<int64_t>(schedule.part.from.value_or(0), 0, timeline.makespan);
  to = std::clamp<int64_t>(schedule.part.to.value_or(timeline.makespan), from, timeline.makespan);
  isWhole = from == 0 && to == timeline.makespan && firstDevice == 0 && deviceEnd == program.devices;
  choose();
}

/// Together with the other members of its overlap.
void HtmlSchedule::include(OpId op, std::vector<bool> &chosen) const {
  while (program.ops[op].has(OverlapFollower))
    --op;
  for (const OpId end = program.groupEnd(op); op < end; ++op)
    chosen[op] = true;
}

void HtmlSchedule::choose() {
  if (isWhole) {
    opOf.resize(program.size());
    for (OpId op = 0; op < program.size(); ++op)
      opOf[op] = op;
    return;
  }
  std::vector<bool> chosen(program.size());
  for (uint32_t device = firstDevice; device < deviceEnd; ++device)
    for (OpId op = program.deviceBegin[device]; op < program.deviceBegin[device + 1]; ++op)
      if (timeline.end[op] >= from && timeline.start(program, costs, op) <= to)
        chosen[op] = true;
  const std::vector<bool> shown = chosen;
  const Bindings bindings(program, schedule.index, costs, timeline);
  for (OpId op = 0; op < program.size(); ++op) {
    if (!shown[op])
      continue;
    for (const Edge &edge : inputsOf(program, schedule.index, program.ops[op]))
      include(edge.from, chosen);
    if (program.ops[op].has(OverlapFollower))
      continue;
    if (const Binding binding = bindings.of(op); binding.op != noOp)
      include(binding.op, chosen);
  }
  for (OpId op = 0; op < program.size(); ++op)
    if (chosen[op])
      opOf.push_back(op);
}

int64_t HtmlSchedule::numberOf(OpId op) const {
  if (op == noOp)
    return -1;
  if (isWhole)
    return op;
  const auto found = llvm::lower_bound(opOf, op);
  return found != opOf.end() && *found == op ? found - opOf.begin() : -1;
}

static void column(llvm::json::OStream &json, llvm::StringRef name, llvm::ArrayRef<int64_t> values) {
  json.attribute(name, packedColumn(values));
}

void HtmlSchedule::write(llvm::json::OStream &json) const {
  json.object([&] {
    json.attribute("name", program.name);
    json.attribute("parameters", schedule.parameterText());
    json.attribute("written", program.isExplicit);
    writeUnits(json);
    writeDevices(json);
    writeOps(json);
    writeTimes(json);
    writeReasons(json);
    writeCritical(json);
    writeSites(json);
    writeTransfers(json);
    writeBeside(json);
    writeMemory(json);
  });
}

/// The unit that the page counts times in, and how many of the places behind the point it needs.
void HtmlSchedule::writeUnits(llvm::json::OStream &json) const {
  const std::string name = costs.ticks ? "ticks" : costs.displayUnit.empty() ? "ns" : costs.displayUnit;
  const auto length = costs.ticks ? Rational(1) : unitNamed(name)->value;
  const Rational scale = divide(costs.unit, length).value_or(Rational(1));
  unsigned places = 0;
  for (int64_t ten = 1; places < 4 && ten % scale.den != 0; ten *= 10)
    ++places;
  json.attribute("ticks", costs.ticks);
  json.attribute("unit", name);
  json.attribute("base", costs.ticks ? 1.0 : length.toDouble()); // in ns
  json.attribute("scale", scale.toDouble());
  json.attribute("places", places);
  json.attribute("makespan", timeline.makespan);
  json.attribute("from", from);
  json.attribute("to", to);
}

void HtmlSchedule::writeDevices(llvm::json::OStream &json) const {
  std::vector<int64_t> counts(program.devices);
  uint32_t device = 0;
  for (OpId op : opOf) {
    while (op >= program.deviceBegin[device + 1])
      ++device;
    ++counts[device];
  }
  json.attributeArray("devices", [&] {
    for (device = 0; device < program.devices; ++device)
      json.object([&] {
        json.attribute("ops", counts[device]);
        json.attribute("shown", isShown(device));
        json.attribute("idle", schedule.figures.times[device].idle);
        json.attribute("activations", schedule.figures.memory.devices[device].peakActivation);
        if (!costs.memoryLimit.empty())
          json.attribute("limit", costs.memoryLimit[device]);
        json.attributeArray("stages", [&] {
          for (uint32_t stage : program.stagesOn(device))
            json.value(stage);
        });
      });
  });
}

/// What each op is. Names that do not follow from kind, stage and microbatch stand beside.
void HtmlSchedule::writeOps(llvm::json::OStream &json) const {
  json.attributeArray("kinds", [&] {
    for (unsigned kind = 0; kind < opKindCount; ++kind)
      json.value(name(static_cast<OpKind>(kind)));
  });
  Column kinds, forms, stages, microbatches;
  std::vector<size_t> named;
  for (size_t i = 0; i < opOf.size(); ++i) {
    const Op &op = program.ops[opOf[i]];
    kinds.push_back(static_cast<int64_t>(op.kind));
    forms.push_back((op.has(OverlapFollower) ? 1 : 0) + (op.isStarted() ? 2 : 0) + (op.isWait() ? 4 : 0));
    stages.push_back(op.stage);
    microbatches.push_back(op.microbatch == noMicrobatch ? -1 : static_cast<int64_t>(op.microbatch));
    if (op.hasFactor() || op.namesPeer() || op.kind >= OpKind::ReduceTied)
      named.push_back(i);
  }
  column(json, "kind", kinds);
  column(json, "form", forms);
  column(json, "stage", stages);
  column(json, "microbatch", microbatches);
  json.attributeObject("names", [&] {
    for (size_t i : named)
      json.attribute(std::to_string(i), str(program, opOf[i]));
  });
}

/// Start of each op as what lies between it and the end of the one before on its device; members of an
/// overlap but the first have no times of their own.
void HtmlSchedule::writeTimes(llvm::json::OStream &json) const {
  Column gaps, durations;
  uint32_t device = 0;
  int64_t before = 0;
  for (OpId op : opOf) {
    for (; op >= program.deviceBegin[device + 1]; ++device)
      before = 0;
    const bool follows = program.ops[op].has(OverlapFollower);
    const int64_t start = timeline.start(program, costs, op);
    gaps.push_back(follows ? 0 : start - before);
    durations.push_back(follows ? 0 : timeline.end[op] - start);
    before = timeline.end[op];
  }
  column(json, "gap", gaps);
  column(json, "duration", durations);
  const std::vector<int64_t> slack = slacks(program, schedule.index, costs, timeline);
  if (slack.empty())
    return;
  Column kept;
  for (OpId op : opOf)
    kept.push_back(slack[op]);
  column(json, "slack", kept);
}

/// What each op waits for, and what it needs.
void HtmlSchedule::writeReasons(llvm::json::OStream &json) const {
  json.attributeArray("edges", [&] {
    for (unsigned kind = 0; kind <= static_cast<unsigned>(EdgeKind::Order); ++kind)
      json.value(name(static_cast<EdgeKind>(kind)));
  });
  Column back, kinds, transfers, counts, edgeKinds, edgeBack;
  const Bindings bindings(program, schedule.index, costs, timeline);
  for (size_t i = 0; i < opOf.size(); ++i) {
    const Op &op = program.ops[opOf[i]];
    const auto number = static_cast<int64_t>(i);
    const Binding binding = op.has(OverlapFollower) ? Binding() : bindings.of(opOf[i]);
    const int64_t cause = numberOf(binding.op);
    back.push_back(cause < 0 ? 0 : number - cause); // 0: nothing
    kinds.push_back(cause < 0 ? 0 : static_cast<int64_t>(binding.kind));
    transfers.push_back(cause < 0 ? 0 : binding.transfer);
    int64_t count = 0;
    for (const Edge &edge : inputsOf(program, schedule.index, op))
      if (const int64_t input = numberOf(edge.from); input >= 0) {
        ++count;
        edgeKinds.push_back(static_cast<int64_t>(edge.kind));
        edgeBack.push_back(number - input);
      }
    counts.push_back(count);
  }
  column(json, "waitsBack", back);
  column(json, "waitsKind", kinds);
  column(json, "waitsTransfer", transfers);
  column(json, "edgeCount", counts);
  column(json, "edgeKind", edgeKinds);
  column(json, "edgeBack", edgeBack);
}

void HtmlSchedule::writeCritical(llvm::json::OStream &json) const {
  Column ops;
  for (const CriticalStep &step : criticalPath(program, schedule.index, costs, timeline))
    if (const int64_t number = numberOf(step.op); number >= 0)
      ops.push_back(number);
  column(json, "critical", ops);
}

/// The lines that ops stand on, each once.
void HtmlSchedule::writeSites(llvm::json::OStream &json) const {
  llvm::DenseMap<uint32_t, int64_t> known;
  std::vector<Span> spans;
  Column sites;
  for (OpId op : opOf) {
    const Span span = program.spanOf(op);
    auto [found, isNew] = known.try_emplace(span.begin, static_cast<int64_t>(spans.size()));
    if (isNew)
      spans.push_back(span);
    sites.push_back(found->second);
  }
  column(json, "site", sites);
  json.attributeArray("sites", [&] {
    for (Span span : spans)
      json.array([&] {
        if (!span.isValid() || !schedule.part.sources)
          return;
        const Location place = schedule.part.sources->locate(span.begin);
        json.value(place.file);
        json.value(place.line);
        json.value(schedule.part.sources->lineText(span.begin).trim().take_front(200));
      });
  });
}

void HtmlSchedule::writeTransfers(llvm::json::OStream &json) const {
  Column makers, users, waits, queued, durations, gradients, links, bytes;
  forEachTransfer(program, schedule.index, costs, timeline, [&](const Transfer &transfer) {
    const int64_t maker = numberOf(transfer.from), user = numberOf(transfer.to);
    if (maker < 0 || user < 0)
      return;
    makers.push_back(maker);
    users.push_back(user - maker);
    waits.push_back(transfer.ready - timeline.end[transfer.from]);
    queued.push_back(transfer.begin - transfer.ready);
    durations.push_back(transfer.end - transfer.begin);
    gradients.push_back(transfer.isGradient);
    links.push_back(transfer.link == noLink ? -1 : static_cast<int64_t>(transfer.link));
    bytes.push_back(transfer.bytes);
  });
  json.attributeArray("links", [&] {
    for (const LinkKind &link : costs.links)
      json.value(link.name);
  });
  json.attributeObject("transfers", [&] {
    column(json, "from", makers);
    column(json, "ahead", users);
    column(json, "wait", waits);
    column(json, "queued", queued);
    column(json, "duration", durations);
    column(json, "gradient", gradients);
    column(json, "link", links);
    column(json, "bytes", bytes);
  });
}

/// What goes on beside the ops of its device: started collectives and moves to and from the host.
void HtmlSchedule::writeBeside(llvm::json::OStream &json) const {
  Column ops, begins, durations;
  for (size_t i = 0; i < opOf.size() && !timeline.done.empty(); ++i) {
    const OpId op = opOf[i];
    if (!program.ops[op].isStarted() || program.ops[op].isCommunication() ||
        timeline.done[op] <= timeline.met[op])
      continue;
    ops.push_back(static_cast<int64_t>(i));
    begins.push_back(timeline.met[op]);
    durations.push_back(timeline.done[op] - timeline.met[op]);
  }
  json.attributeObject("beside", [&] {
    column(json, "op", ops);
    column(json, "begin", begins);
    column(json, "duration", durations);
  });
}

void HtmlSchedule::writeMemory(llvm::json::OStream &json) const {
  std::optional<Versions> versions;
  if (costs.asynchronous)
    versions = versionsOf(program);
  const bool hasBytes = schedule.figures.missingSetting("peak_memory").empty();
  Column counts, times, values;
  for (uint32_t device = firstDevice; device < deviceEnd; ++device) {
    int64_t before = 0, count = 0;
    for (const MemoryPoint &point :
         memoryCurve(program, schedule.index, costs, timeline, device, versions ? &*versions : nullptr)) {
      times.push_back(point.time - before);
      values.push_back(hasBytes ? point.bytes : point.activations);
      before = point.time;
      ++count;
    }
    counts.push_back(count);
  }
  json.attributeObject("memory", [&] {
    json.attribute("bytes", hasBytes);
    column(json, "count", counts);
    column(json, "step", times);
    column(json, "value", values);
  });
}

} // namespace sluice
