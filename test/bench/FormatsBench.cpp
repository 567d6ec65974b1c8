// Time per op from the text of other systems' formats and of our JSON to the IR, and back. 1F1B on 64
// devices; items are ops.
#include "Formats/Format.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

using namespace sluice;

namespace {

constexpr unsigned devices = 64;

/// Visits the ops of device `d` in the order of 1F1B.
void visit(unsigned d, unsigned microbatches, const std::function<void(bool isForward, unsigned m)> &op) {
  const unsigned warmup = std::min(devices - 1 - d, microbatches);
  for (unsigned m = 0; m < warmup; ++m)
    op(true, m);
  for (unsigned m = 0; m + warmup < microbatches; ++m) {
    op(true, m + warmup);
    op(false, m);
  }
  for (unsigned m = microbatches - warmup; m < microbatches; ++m)
    op(false, m);
}

std::string megatron(unsigned microbatches) {
  std::string text;
  for (unsigned d = 0; d < devices; ++d) {
    visit(d, microbatches, [&](bool isForward, unsigned) { text += isForward ? "1 " : "-1 "; });
    text += "\n";
  }
  return text;
}

std::string deepSpeed(unsigned microbatches) {
  std::string text;
  for (unsigned d = 0; d < devices; ++d) {
    text += "stage " + std::to_string(d) + "\n";
    visit(d, microbatches, [&](bool isForward, unsigned m) {
      text +=
          (isForward ? "[ForwardPass(buffer_id=" : "[BackwardPass(buffer_id=") + std::to_string(m) + ")]\n";
    });
  }
  return text;
}

/// Reads `text` once; ends the process if the bench's own text is not of its format.
FormattedSchedule readOnce(const Format &format, SourceManager &sources, Span text) {
  Diagnostics diagnostics;
  std::vector<std::string> lost;
  std::optional<FormattedSchedule> schedule = format.read(sources, text, {}, diagnostics, lost);
  if (!schedule)
    std::abort();
  return std::move(*schedule);
}

std::string write(const Format &format, const FormattedSchedule &schedule) {
  std::vector<std::string> lost;
  std::string error;
  return format.write(schedule, lost, error).value();
}

void count(benchmark::State &state, const Program &program) {
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * program.size()));
  state.counters["ops"] = static_cast<double>(program.size());
}

void readText(benchmark::State &state, llvm::StringRef name, const std::string &text) {
  const Format &format = *findFormat(name);
  SourceManager sources;
  Span span = *sources.addFile("order", text);
  FormattedSchedule schedule = readOnce(format, sources, span);
  for (auto _ : state)
    benchmark::DoNotOptimize(readOnce(format, sources, span).program.size());
  count(state, schedule.program);
}

/// The schedule of `microbatches` as the IR.
FormattedSchedule oneFOneB(unsigned microbatches) {
  SourceManager sources;
  Span text = *sources.addFile("order", megatron(microbatches));
  return readOnce(*findFormat("megatron"), sources, text);
}

unsigned microbatches(const benchmark::State &state) { return static_cast<unsigned>(state.range(0)); }

void readMegatronOrder(benchmark::State &state) {
  readText(state, "megatron", megatron(microbatches(state)));
}
void readDeepSpeedSteps(benchmark::State &state) {
  readText(state, "deepspeed", deepSpeed(microbatches(state)));
}
void readOurJson(benchmark::State &state) {
  readText(state, "json", write(*findFormat("json"), oneFOneB(microbatches(state))));
}

void writeText(benchmark::State &state, llvm::StringRef name) {
  const Format &format = *findFormat(name);
  FormattedSchedule schedule = oneFOneB(microbatches(state));
  for (auto _ : state)
    benchmark::DoNotOptimize(write(format, schedule).size());
  count(state, schedule.program);
}
void writeMegatronOrder(benchmark::State &state) { writeText(state, "megatron"); }
void writeOurJson(benchmark::State &state) { writeText(state, "json"); }

#define SLUICE_FORMAT(step) BENCHMARK(step)->Arg(256)->Arg(2048)->Arg(16384)->Unit(benchmark::kMillisecond)
SLUICE_FORMAT(readMegatronOrder);
SLUICE_FORMAT(readDeepSpeedSteps);
SLUICE_FORMAT(readOurJson);
SLUICE_FORMAT(writeMegatronOrder);
SLUICE_FORMAT(writeOurJson);

} // namespace
