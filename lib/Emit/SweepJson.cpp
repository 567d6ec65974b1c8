// A sweep for programs, in the words and numbers of `simulate --format json`; docs/sweeps.md has the schema.
#include "Emit/FigureScale.h"
#include "Emit/JsonValues.h"
#include "Emit/SweepTable.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace sluice {

namespace {

class Writer {
public:
  Writer(const SweepTable &table, llvm::raw_ostream &stream)
      : table(table), time(fixedScale(FigureUnit::Time, table.ticks, table.displayUnit)), json(stream, 2) {}

  void write() {
    json.object([&] {
      json.attribute("version", 1);
      json.attribute("file", table.file);
      json.attribute("hold", table.holdsBatch ? "batch" : "microbatch_samples");
      json.attribute("invariant", table.invariant);
      json.attribute("meaning", table.meaning);
      json.attributeArray("swept", [&] {
        for (const std::string &name : table.swept)
          json.value(name);
      });
      if (!table.comparedAlong.empty())
        json.attribute("compared_along", table.comparedAlong);
      json.attributeArray("rows", [&] {
        for (const SweepRow &row : table.rows)
          json.object([&] { write(row); });
      });
      json.attribute("left_out", static_cast<int64_t>(table.leftOut));
      json.attributeArray("notes", [&] {
        for (const std::string &note : table.notes)
          json.value(note);
      });
    });
  }

private:
  void write(const SweepRow &row) {
    json.attribute("schedule", row.schedule);
    json.attributeObject("parameters", [&] {
      for (auto [name, value] : llvm::zip_equal(table.swept, row.values))
        writeParameter(json, name, value);
    });
    if (!row.refused.empty()) {
      json.attribute("refused", row.refused);
      return;
    }
    json.attribute("batch", row.batch);
    json.attributeObject("samples", [&] {
      json.attribute("least", row.leastSamples);
      json.attribute("most", row.mostSamples);
      json.attributeObject("mean", [&] { number(row.samples, {"1", 1}); });
    });
    json.attributeObject("figures", [&] {
      for (auto [column, value] : llvm::zip_equal(table.columns, row.figures))
        if (value)
          json.attributeObject(column.title(), [&] {
            number(*value, fixedScale(column.unit, table.ticks, table.displayUnit));
          });
    });
    if (row.fits) {
      json.attribute("fits", *row.fits);
      json.attributeObject("headroom", [&] { number(row.headroom, {"B", 1}); });
    }
    if (row.time)
      json.attributeObject("time_per_sample", [&] { split(*row.time); });
    if (row.change) {
      json.attribute("against", row.against);
      json.attributeObject("change", [&] { split(*row.change); });
    }
  }

  void split(const TimeSplit &times) {
    json.attributeObject("total", [&] { number(times.total, time); });
    json.attributeObject("kernel", [&] { number(times.kernel, time); });
    json.attributeObject("bubble", [&] { number(times.bubble, time); });
    json.attributeObject("transfer", [&] { number(times.transfer, time); });
  }

  void number(const Rational &base, const FigureScale &scale) {
    const auto value = scale.of(base);
    if (value) // else it leaves 64 bits in this unit
      writeNumber(json, *value, scale.unit);
  }

  const SweepTable &table;
  const FigureScale time;
  llvm::json::OStream json;
};

} // namespace

std::string sweepJson(const SweepTable &table) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  Writer(table, stream).write();
  stream << "\n";
  return text;
}

} // namespace sluice
