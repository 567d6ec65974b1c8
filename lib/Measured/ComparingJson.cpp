#include "Measured/Comparing.h"

#include "Emit/JsonValues.h"
#include "Emit/TimeText.h"
#include "Support/Quantity.h"

#include "llvm/Support/raw_ostream.h"

#include <cmath>

namespace sluice {

namespace {

class ComparingDocument {
public:
  ComparingDocument(const Comparing &comparing, const CompareCaption &caption, const SourceManager &sources,
                    llvm::raw_ostream &out)
      : comparing(comparing), caption(caption), sources(sources), costs(comparing.measurement->costs),
        program(comparing.measurement->program), json(out, 2) {
    const auto nanoseconds = costs.ticks ? std::optional(Rational(1)) : nanosecondsOfDisplay();
    scale = nanoseconds ? divide(costs.unit, *nanoseconds) : std::nullopt;
  }

  void write() {
    const Measurement &measurement = *comparing.measurement;
    json.object([&] {
      json.attribute("version", 1);
      json.attribute("schedule", program.name);
      json.attributeObject("parameters", [&] {
        for (const auto &[name, value] : caption.parameters)
          writeParameter(json, name, value);
      });
      json.attribute("measured", !measurement.isModeled);
      json.attribute("replica", caption.replica);
      json.attribute("replicas", measurement.replicas);
      json.attribute("step", static_cast<int64_t>(comparing.run->step));
      json.attribute("steps", static_cast<int64_t>(comparing.looked.size()));
      json.attribute("left_out", static_cast<int64_t>(comparing.leavesFirstOut + measurement.incomplete));
      timeMember("least_makespan", Rational(comparing.least));
      timeMember("most_makespan", Rational(comparing.most));
      if (comparing.period)
        timeMember("step_period", *comparing.period);
      json.attributeObject("figures", [&] { figuresOf(FigureArity::Schedule, std::nullopt); });
      json.attributeArray("devices", [&] {
        for (uint32_t device = 0; device < program.devices; ++device)
          json.object([&] {
            json.attribute("device", device);
            json.attributeObject("figures", [&] { figuresOf(FigureArity::Device, device); });
          });
      });
      json.attributeArray("stages", [&] {
        for (uint32_t stage = 0; stage < program.stages; ++stage)
          json.object([&] {
            json.attribute("stage", stage);
            json.attributeObject("figures", [&] { figuresOf(FigureArity::Stage, stage); });
          });
      });
      json.attributeArray("parts", [&] {
        for (const MakespanPart &part : comparing.parts)
          json.object([&] {
            json.attribute("what", part.what);
            timeMember("time", Rational(part.time));
          });
      });
      json.attributeArray("ops", [&] { ops(); });
      json.attributeArray("messages", [&] { messages(); });
      json.attributeArray("worst", [&] { worst(); });
      json.attributeArray("notes", [&] {
        for (const std::string &note : caption.notes)
          json.value(note);
      });
    });
    json.flush();
  }

private:
  std::optional<Rational> nanosecondsOfDisplay() const {
    const auto one = unitNamed(displayUnitOf(costs));
    return one ? std::optional(one->value) : std::nullopt;
  }
  void timeMember(llvm::StringRef name, const Rational &time) {
    if (auto shown = scale ? multiply(time, *scale) : std::nullopt)
      json.attributeObject(name, [&] { writeNumber(json, *shown, displayUnitOf(costs)); });
  }
  void valueMember(llvm::StringRef name, const FigureInfo &figure, const Rational &value) {
    if (figure.unit == FigureUnit::Time)
      return timeMember(name, value);
    if (figure.unit != FigureUnit::Rate)
      return json.attributeObject(name, [&] { writeNumber(json, value, "1"); });
    auto base = divide(value, costs.unit);
    if (base && !costs.ticks)
      base = multiply(*base, Rational(1'000'000'000));
    if (base)
      json.attributeObject(name, [&] { writeNumber(json, *base, costs.ticks ? "1/tick" : "1/s"); });
  }
  void figuresOf(FigureArity arity, std::optional<uint32_t> index) {
    for (const FigureInfo &figure : runFigures()) {
      if (figure.arity != arity)
        continue;
      const auto before = predictedFigure(*comparing.measurement, *comparing.figures, figure, index);
      const auto after = comparing.measured->value(figure.name, index);
      if (before && after)
        json.attributeObject(figure.name, [&] {
          valueMember("predicted", figure, *before);
          valueMember("measured", figure, *after);
        });
    }
  }
  void ops() {
    for (const OpClass &group : comparing.classes)
      json.object([&] {
        json.attribute("op", name(group.kind));
        json.attribute("stage", group.stage);
        json.attribute("count", static_cast<int64_t>(group.count));
        timeMember("predicted", group.predicted);
        timeMember("mean", group.mean);
        timeMember("least", Rational(group.least));
        timeMember("median", Rational(group.median));
        timeMember("most", Rational(group.most));
        timeMember("deviation", Rational(std::llround(group.deviation)));
      });
  }
  void messages() {
    for (const MessageClass &group : comparing.messages)
      json.object([&] {
        json.attribute("kind", group.isGradient ? "gradient" : "activation");
        json.attribute("from", group.from);
        json.attribute("to", group.to);
        json.attribute("count", static_cast<int64_t>(group.count));
        if (group.bytes >= 0)
          json.attribute("bytes", group.bytes);
        timeMember("predicted", Rational(group.predicted));
        timeMember("least", Rational(group.least));
        timeMember("median", Rational(group.median));
        timeMember("most", Rational(group.most));
      });
  }
  void worst() {
    for (const Offender &offender : comparing.offenders)
      json.object([&] {
        json.attribute("op", str(program, offender.op));
        json.attribute("device", program.deviceOf(offender.op));
        timeMember("predicted", Rational(offender.predicted));
        timeMember("measured", Rational(offender.measured));
        if (const Span span = program.spanOf(offender.op); span.isValid()) {
          const Location location = sources.locate(span.begin);
          json.attribute("file", location.file);
          json.attribute("line", location.line);
        }
      });
  }

  const Comparing &comparing;
  const CompareCaption &caption;
  const SourceManager &sources;
  const CostModel &costs;
  const Program &program;
  llvm::json::OStream json;
  std::optional<Rational> scale; // from the unit of the measurement to the one to show
};

} // namespace

std::string comparingJson(const Comparing &comparing, const CompareCaption &caption,
                          const SourceManager &sources) {
  std::string text;
  llvm::raw_string_ostream out(text);
  ComparingDocument(comparing, caption, sources, out).write();
  return text + "\n";
}

} // namespace sluice
