#include "Emit/FiguresJson.h"

#include "Support/Quantity.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace sluice {

namespace {

struct Unit {
  std::string name;
  Rational factor; ///< Of one figure unit, in `name`.
};

/// The unit that figures of `kind` are stated in, and how many of them one base unit is.
Unit unitOf(FigureUnit kind, const CostModel &costs) {
  const std::string time = costs.ticks ? "tick" : costs.displayUnit.empty() ? "ns" : costs.displayUnit;
  switch (kind) {
  case FigureUnit::Time: {
    auto length = costs.ticks ? std::nullopt : unitNamed(time);
    return {time, length ? *divide(Rational(1), length->value) : Rational(1)};
  }
  case FigureUnit::Rate:
    return {costs.ticks ? "1/tick" : "1/s", costs.ticks ? Rational(1) : Rational(1'000'000'000)};
  case FigureUnit::Size:
    return {"B", 1};
  default:
    return {"1", 1};
  }
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
        parameter(name, value);
    });
    figures(schedule, FigureArity::Schedule, std::nullopt);
    json.attributeArray("closed_forms", [&] { closedForms(schedule); });
    json.attributeArray("devices", [&] {
      for (uint32_t device = 0; device < schedule.program.devices; ++device)
        json.object([&] {
          json.attribute("device", device);
          figures(schedule, FigureArity::Device, device);
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

  /// Integers are numbers; anything else is its text.
  void parameter(const std::string &name, const std::string &value) {
    int64_t integer = 0;
    if (llvm::to_integer(value, integer, 10))
      json.attribute(name, integer);
    else
      json.attribute(name, value);
  }

  void figures(const TimedSchedule &schedule, FigureArity arity, std::optional<uint32_t> index) {
    json.attributeObject("figures", [&] {
      for (const FigureInfo &info : allFigures()) {
        if (info.arity != arity)
          continue;
        const Unit unit = unitOf(info.unit, schedule.costs);
        auto base = schedule.figures.valueInBaseUnits(info.name, index);
        auto value = base ? multiply(*base, unit.factor) : std::nullopt;
        if (value)
          json.attributeObject(info.name, [&] { number(*value, unit.name); });
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
          json.attributeArray("values", [&] { json.object([&] { number(*value, "1"); }); });
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
        const Unit unit = unitOf(findFigure(stated.figure)->unit, schedule.costs);
        json.attributeArray("values", [&] {
          for (const Rational &value : stated.values)
            if (auto scaled = multiply(value, unit.factor))
              json.object([&] { number(*scaled, unit.name); });
        });
      });
  }

  void number(const Rational &value, const std::string &unit) {
    json.attribute("exact", value.str());
    json.attributeBegin("value");
    json.rawValue(fmt::format("{}", value.toDouble())); // shortest text that reads back equal
    json.attributeEnd();
    json.attribute("unit", unit);
  }

  llvm::json::OStream json;
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
