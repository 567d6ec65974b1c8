// Time per cell from the text of an order to the IR: a PyTorch CSV, the same cells as a table in a schedule
// file, and such a file as a whole with its parser. 1F1B on 64 devices; items are cells.
#include "Driver/Compilation.h"
#include "Syntax/Parse.h"

#include <benchmark/benchmark.h>

#include <algorithm>

using namespace sluice;

namespace {

constexpr unsigned devices = 64;

/// The rows of 1F1B; `separator` stands between cells.
std::vector<std::string> rows(unsigned microbatches, char separator) {
  std::vector<std::string> result(devices);
  for (unsigned d = 0; d < devices; ++d) {
    auto add = [&](char kind, unsigned m) {
      result[d] +=
          (result[d].empty() ? "" : std::string(1, separator)) + std::to_string(d) + kind + std::to_string(m);
    };
    const unsigned warmup = std::min(devices - 1 - d, microbatches);
    for (unsigned m = 0; m < warmup; ++m)
      add('F', m);
    for (unsigned m = 0; m + warmup < microbatches; ++m) {
      add('F', m + warmup);
      add('B', m);
    }
    for (unsigned m = microbatches - warmup; m < microbatches; ++m)
      add('B', m);
  }
  return result;
}

std::string csv(unsigned microbatches) {
  std::string text;
  for (const std::string &row : rows(microbatches, ','))
    text += row + "\n";
  return text;
}

std::string tableFile(unsigned microbatches) {
  std::string text = "schedule order {\n  table {\n";
  unsigned d = 0;
  for (const std::string &row : rows(microbatches, ' '))
    text += "    " + std::to_string(d++) + ": " + row + ";\n";
  return text + "  }\n}\n";
}

class OneCsv : public FileLoader {
public:
  OneCsv(SourceManager &sources, const std::string &text)
      : FileLoader(sources), csv(*sources.addFile("order.csv", text)) {}
  Result read(llvm::StringRef, llvm::StringRef) override { return {csv, ""}; }

private:
  Span csv;
};

void importFrom(benchmark::State &state, const std::string &file, const std::string &table) {
  SourceManager sources;
  OneCsv loader(sources, table);
  Diagnostics diagnostics;
  Span text = *sources.addFile("order.sluice", file);
  CheckedFile checked = analyze(*parse(sources, text, diagnostics), sources, loader, diagnostics);
  Evaluator evaluator(checked, diagnostics);
  evaluator.run(checked.steps, {});
  uint64_t cells = 0;
  for (auto _ : state) {
    auto program = elaborate(checked.schedules[0], evaluator, sources, {});
    cells = program->size();
    benchmark::DoNotOptimize(program);
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * cells));
  state.counters["cells"] = static_cast<double>(cells);
}

void importCsv(benchmark::State &state) {
  importFrom(state, "schedule order { table from \"order.csv\"; }",
             csv(static_cast<unsigned>(state.range(0))));
}

void importTable(benchmark::State &state) {
  importFrom(state, tableFile(static_cast<unsigned>(state.range(0))), "");
}

/// All of a file that holds its table: parser, names, ops.
void parseTable(benchmark::State &state) {
  const std::string file = tableFile(static_cast<unsigned>(state.range(0)));
  uint64_t cells = 0;
  for (auto _ : state) {
    SourceManager sources;
    FileLoader loader(sources);
    Diagnostics diagnostics;
    Span text = *sources.addFile("order.sluice", file);
    CheckedFile checked = analyze(*parse(sources, text, diagnostics), sources, loader, diagnostics);
    Evaluator evaluator(checked, diagnostics);
    evaluator.run(checked.steps, {});
    cells = elaborate(checked.schedules[0], evaluator, sources, {})->size();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * cells));
  state.counters["cells"] = static_cast<double>(cells);
}

#define SLUICE_IMPORT(step) BENCHMARK(step)->Arg(256)->Arg(2048)->Arg(16384)->Unit(benchmark::kMillisecond)
SLUICE_IMPORT(importCsv);
SLUICE_IMPORT(importTable);
SLUICE_IMPORT(parseTable);

} // namespace
