#include "Emit/FiguresJson.h"

#include "Emit/FigureScale.h"
#include "Emit/JsonValues.h"
#include "Timeline/MessageTime.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace sluice {

namespace {

FigureScale scaleOf(FigureUnit kind, const CostModel &costs) {
  return fixedScale(kind, costs.ticks, costs.displayUnit);
}

class Writer {
public:
  explicit Writer(llvm::raw_ostream &stream) : json(stream, 2) {}

  void write(llvm::ArrayRef<TimedSchedule> schedules) {
    json.object([&] {
      json.attribute("version", 1);
      json.attributeArray("schedules", [&] {
        for (const TimedSchedule &schedule : schedules)
          json.object([&] { write(schedule); });
      });
    });
  }

private:
  void write(const TimedSchedule &schedule) {
    json.attribute("name", schedule.program.name);
    json.attributeObject("parameters", [&] {
      for (const auto &[name, value] : schedule.parameters)
        writeParameter(json, name, value);
    });
    figures(schedule, FigureArity::Schedule, std::nullopt);
    if (!schedule.file.empty())
      json.attribute("file", schedule.file);
    if (auto fits = schedule.figures.fits())
      json.attribute("fits", *fits);
    json.attributeArray("closed_forms", [&] { closedForms(schedule); });
    json.attributeObject("critical_path", [&] { criticalPath(schedule); });
    json.attributeArray("links", [&] { links(schedule); });
    if (schedule.figures.sensitivity && schedule.figures.sensitivity->collectives)
      json.attributeObject("collectives", [&] {
        time("sensitivity", *schedule.figures.sensitivity->collectives, schedule.costs);
      });
    json.attributeArray("devices", [&] {
      for (uint32_t device = 0; device < schedule.program.devices; ++device)
        json.object([&] {
          json.attribute("device", device);
          figures(schedule, FigureArity::Device, device);
          memoryAtPeak(schedule, device);
          if (schedule.part.memory)
            json.attributeArray("memory", [&] { memoryOverTime(schedule, device); });
          if (!schedule.figures.slack.empty())
            json.attributeArray("ops", [&] { ops(schedule, device); });
        });
    });
    json.attributeArray("stages", [&] {
      for (uint32_t stage = 0; stage < schedule.program.stages; ++stage)
        json.object([&] {
          json.attribute("stage", stage);
          figures(schedule, FigureArity::Stage, stage);
        });
    });
  }

  void figures(const TimedSchedule &schedule, FigureArity arity, std::optional<uint32_t> index) {
    json.attributeObject("figures", [&] {
      for (const FigureInfo &info : allFigures()) {
        if (info.arity != arity)
          continue;
        const FigureScale scale = scaleOf(info.unit, schedule.costs);
        auto base = schedule.figures.valueInBaseUnits(info.name, index);
        auto value = base ? scale.of(*base) : std::nullopt;
        if (value)
          json.attributeObject(info.name, [&] { writeNumber(json, *value, scale.unit); });
      }
    });
  }

  /// Those recognised by the order of the ops, then those that files state.
  void closedForms(const TimedSchedule &schedule) {
    const ClosedForms &closed = schedule.figures.closed;
    auto known = [&](const char *figure, const char *formula, const std::optional<Rational> &value) {
      if (value)
        json.object([&] {
          json.attribute("figure", figure);
          json.attribute("formula", formula);
          json.attribute("order", closed.order);
          json.attributeArray("values", [&] { json.object([&] { writeNumber(json, *value, "1"); }); });
        });
    };
    known("overhead_ratio", "overhead_ratio == (P - 1) / M", closed.overheadRatio);
    known("idle_fraction", "idle_fraction == (P - 1) / (M + P - 1)", closed.idleFraction);
    for (const StatedForm &stated : closed.stated)
      json.object([&] {
        json.attribute("figure", stated.figure);
        json.attribute("formula", stated.formula);
        json.attribute("schedule", stated.schedule);
        json.attribute("file", stated.file);
        json.attribute("line", stated.line);
        const FigureScale scale = scaleOf(findFigure(stated.figure)->unit, schedule.costs);
        json.attributeArray("values", [&] {
          for (const Rational &value : stated.values)
            if (auto scaled = scale.of(value))
              json.object([&] { writeNumber(json, *scaled, scale.unit); });
        });
      });
  }

  void criticalPath(const TimedSchedule &schedule) {
    const Makeup &makeup = schedule.figures.makeup;
    const CostModel &costs = schedule.costs;
    json.attribute("ops", static_cast<int64_t>(makeup.ops));
    json.attributeObject("kinds", [&] {
      for (unsigned kind = 0; kind < Makeup::overlap; ++kind)
        time(name(static_cast<OpKind>(kind)), Rational(makeup.kinds[kind]), costs);
      time("overlap", Rational(makeup.kinds[Makeup::overlap]), costs);
    });
    json.attributeArray("stages", [&] {
      for (uint32_t stage = 0; stage < makeup.stages.size(); ++stage)
        json.object([&] {
          json.attribute("stage", stage);
          time("compute", makeup.stages[stage].compute, costs);
          time("update", Rational(makeup.stages[stage].update), costs);
        });
    });
    json.attributeArray("links", [&] {
      for (const PathLink &link : makeup.links)
        json.object([&] {
          json.attribute("link", linkName(costs, link.link));
          time("latency", Rational(link.latency), costs);
          time("moving", Rational(link.moving), costs);
          time("queueing", Rational(link.queueing), costs);
        });
    });
    time("collectives", Rational(makeup.collectives), costs);
    time("host", Rational(makeup.host), costs);
  }

  void links(const TimedSchedule &schedule) {
    const Figures &figures = schedule.figures;
    for (const LinkTraffic &traffic : figures.links)
      json.object([&] {
        json.attribute("link", linkName(schedule.costs, traffic.link));
        json.attribute("transfers", traffic.transfers);
        if (figures.missingSetting("bytes_moved").empty())
          json.attributeObject("bytes", [&] { writeNumber(json, Rational(traffic.bytes), "B"); });
        json.attribute("lanes", traffic.lanes);
        time("busiest_lane", Rational(traffic.busiest), schedule.costs);
        if (auto part = Rational::make(traffic.busiest, figures.makespan))
          json.attributeObject("utilization", [&] { writeNumber(json, *part, "1"); });
        if (figures.sensitivity)
          for (const LinkSensitivity &link : figures.sensitivity->links)
            if (link.link == traffic.link)
              time("sensitivity", link.gain, schedule.costs);
      });
  }

  void memoryAtPeak(const TimedSchedule &schedule, uint32_t device) {
    if (!schedule.figures.missingSetting("peak_memory").empty())
      return;
    const DeviceMemory &memory = schedule.figures.memory.devices[device];
    json.attributeObject("memory_at_peak", [&] {
      time("time", Rational(memory.peakTime), schedule.costs);
      if (memory.peakOp < schedule.program.size())
        json.attribute("op", str(schedule.program, memory.peakOp));
      json.attributeArray("live", [&] {
        for (const LiveItem &item : memory.livePeak)
          json.object([&] {
            json.attribute("what", name(item.kind));
            if (item.stage != noStage)
              json.attribute("stage", item.stage);
            json.attribute("count", item.count);
            json.attribute("bytes", item.bytes);
          });
      });
    });
  }

  void memoryOverTime(const TimedSchedule &schedule, uint32_t device) {
    if (versionsOfProgram != &schedule.program) {
      versions.reset();
      if (schedule.costs.asynchronous)
        versions = versionsOf(schedule.program);
      versionsOfProgram = &schedule.program;
    }
    for (const MemoryPoint &point : memoryCurve(schedule.program, schedule.index, schedule.costs,
                                                schedule.timeline, device, versions ? &*versions : nullptr))
      json.array([&] {
        value(inUnit(Rational(point.time), FigureUnit::Time, schedule.costs));
        json.value(point.bytes);
        json.value(point.activations);
      });
  }

  void ops(const TimedSchedule &schedule, uint32_t device) {
    const Program &program = schedule.program;
    for (OpId op = program.deviceBegin[device]; op < program.deviceBegin[device + 1]; ++op)
      json.object([&] {
        json.attribute("op", str(program, op));
        time("start", Rational(schedule.timeline.start(program, schedule.costs, op)), schedule.costs);
        time("end", Rational(schedule.timeline.end[op]), schedule.costs);
        time("slack", Rational(schedule.figures.slack[op]), schedule.costs);
      });
  }

  /// A time in CostModel::unit.
  void time(llvm::StringRef key, const Rational &units, const CostModel &costs) {
    if (auto scaled = inUnit(units, FigureUnit::Time, costs))
      json.attributeObject(key, [&] { writeNumber(json, *scaled, scaleOf(FigureUnit::Time, costs).unit); });
  }
  static std::optional<Rational> inUnit(const Rational &units, FigureUnit kind, const CostModel &costs) {
    auto base = inBaseUnits(costs, units);
    return base ? scaleOf(kind, costs).of(*base) : std::nullopt;
  }
  void value(const std::optional<Rational> &number) {
    if (number)
      json.rawValue(fmt::format("{}", number->toDouble())); // shortest text that reads back equal
    else
      json.value(nullptr);
  }

  llvm::json::OStream json;
  std::optional<Versions> versions; ///< Of an asynchronous schedule whose memory is asked for.
  const Program *versionsOfProgram = nullptr;
};

} // namespace

std::string figuresJson(llvm::ArrayRef<TimedSchedule> schedules) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  Writer(stream).write(schedules);
  stream << "\n";
  return text;
}

} // namespace sluice
