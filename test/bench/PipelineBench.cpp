// Time per op of each step, for 1F1B on 64 devices. Items are ops; run tools/bench for the table.
#include "Driver/Compilation.h"
#include "Elaborate/Costs.h"
#include "Events/Completion.h"
#include "Formats/PytorchCsv.h"
#include "Passes/LowerCommunication.h"
#include "Passes/LowerReductions.h"
#include "Passes/LowerSharding.h"
#include "Syntax/Parse.h"

#include <algorithm>
#include <benchmark/benchmark.h>

using namespace sluice;

namespace {

constexpr const char *head = R"(
param P = 64;
param M = 16;
training { microbatches = M; }
)";
constexpr const char *evenCosts = R"(
model even { stages = P; forward(s) = 10 ms; backward(s) = 20 ms; activation = 512 MiB; boundary = 32 MiB; }
cluster node { devices = P; link { latency = 5 us; bandwidth = 50 GB/s; } }
)";
/// Nothing repeats: neither the timeline nor its figures can take one block for others.
constexpr const char *unevenCosts = R"(
model uneven { stages = P; forward(s, m) = (10 + mod(m * m + s, 7)) * 1 ms; backward(s) = 20 ms;
               activation = 512 MiB; boundary = 32 MiB; }
cluster node { devices = P; link { latency = 5 us; bandwidth = 50 GB/s; } }
)";
/// One network card for eight devices.
constexpr const char *fifoLanes = R"(
model even { stages = P; forward(s) = 10 ms; backward(s) = 20 ms; activation = 512 MiB; boundary = 32 MiB; }
cluster node { devices = P; link (a, b) { latency = 5 us; bandwidth = 50 GB/s; shared = fifo; lane = div(a, 8); } }
)";
constexpr const char *fairLanes = R"(
model even { stages = P; forward(s) = 10 ms; backward(s) = 20 ms; activation = 512 MiB; boundary = 32 MiB; }
cluster node { devices = P; link (a, b) { latency = 5 us; bandwidth = 50 GB/s; shared = fair; lane = div(a, 8); } }
)";
constexpr const char *schedule = R"(
schedule one_f_one_b {
  place s on s;
  device d {
    let warmup = min(P - 1 - d, M);
    for m in 0..warmup     { forward(m); }
    for m in 0..M - warmup { forward(m + warmup); backward(m); }
    for m in M - warmup..M { backward(m); }
    reduce;
    update;
  }
}
)";

/// A file up to its evaluated parameters, and what later steps need.
struct Fixture {
  explicit Fixture(int64_t microbatches, const std::string &settings = evenCosts) {
    Span text = *sources.addFile("bench.sluice", head + settings + schedule);
    auto parsed = parse(sources, text, diagnostics);
    if (!parsed)
      std::abort(); // the bench's own text
    file = analyze(*parsed, sources, loader, diagnostics);
    evaluator = std::make_unique<Evaluator>(*file, diagnostics);
    for (const CheckedParam &param : file->params)
      evaluator->set(param.slot, param.name == "M" ? microbatches : 64);
    evaluator->run(file->steps, {});
  }
  void elaborateAll() {
    program = elaborate(file->schedules[0], *evaluator, sources, {});
    costs = evaluateCosts(*program, file->schedules[0], *evaluator);
    if (!diagnostics.findings().empty())
      std::abort(); // the bench's own text
    index = std::make_unique<ProgramIndex>(*program);
  }

  SourceManager sources;
  FileLoader loader{sources};
  Diagnostics diagnostics;
  std::optional<CheckedFile> file;
  std::unique_ptr<Evaluator> evaluator;
  std::optional<Program> program;
  std::optional<CostModel> costs;
  std::unique_ptr<ProgramIndex> index;
};

void countOps(benchmark::State &state, const Program &program) {
  state.SetItemsProcessed(state.iterations() * program.size());
  state.counters["ops"] = program.size();
}

void parseAndAnalyze(benchmark::State &state) {
  for (auto _ : state)
    benchmark::DoNotOptimize(Fixture(16).file->schedules.size());
}
BENCHMARK(parseAndAnalyze)->Unit(benchmark::kMicrosecond);

void elaboration(benchmark::State &state) {
  Fixture fixture(state.range(0));
  fixture.elaborateAll();
  for (auto _ : state)
    benchmark::DoNotOptimize(elaborate(fixture.file->schedules[0], *fixture.evaluator, fixture.sources, {}));
  countOps(state, *fixture.program);
}

void indexing(benchmark::State &state) {
  Fixture fixture(state.range(0));
  fixture.elaborateAll();
  for (auto _ : state)
    benchmark::DoNotOptimize(ProgramIndex(*fixture.program));
  countOps(state, *fixture.program);
}

void verification(benchmark::State &state) {
  Fixture fixture(state.range(0));
  fixture.elaborateAll();
  for (auto _ : state)
    benchmark::DoNotOptimize(verify(*fixture.program, *fixture.index, *fixture.costs, fixture.diagnostics));
  countOps(state, *fixture.program);
}

void simulationOf(benchmark::State &state, const char *settings) {
  Fixture fixture(state.range(0), settings);
  fixture.elaborateAll();
  for (auto _ : state)
    benchmark::DoNotOptimize(simulate(*fixture.program, *fixture.index, *fixture.costs, fixture.diagnostics));
  countOps(state, *fixture.program);
}

void simulation(benchmark::State &state) { simulationOf(state, evenCosts); }
void simulationUneven(benchmark::State &state) { simulationOf(state, unevenCosts); }
void simulationFifo(benchmark::State &state) { simulationOf(state, fifoLanes); }
void simulationFair(benchmark::State &state) { simulationOf(state, fairLanes); }

void figuresOf(benchmark::State &state, const char *settings) {
  Fixture fixture(state.range(0), settings);
  fixture.elaborateAll();
  auto timeline = simulate(*fixture.program, *fixture.index, *fixture.costs, fixture.diagnostics);
  for (auto _ : state)
    benchmark::DoNotOptimize(
        computeFigures(*fixture.program, *fixture.index, *fixture.costs, *timeline, fixture.diagnostics));
  countOps(state, *fixture.program);
}

void figures(benchmark::State &state) { figuresOf(state, evenCosts); }
void figuresUneven(benchmark::State &state) { figuresOf(state, unevenCosts); }

template <CommunicationPlacement placement> void communication(benchmark::State &state) {
  Fixture fixture(state.range(0));
  fixture.elaborateAll();
  for (auto _ : state)
    benchmark::DoNotOptimize(lowerCommunication(*fixture.program, *fixture.index, placement));
  countOps(state, *fixture.program);
}
void earlyCommunication(benchmark::State &state) { communication<CommunicationPlacement::Early>(state); }
void lateCommunication(benchmark::State &state) { communication<CommunicationPlacement::JustInTime>(state); }

/// The verdict on written sends and receives, early placement: the event graph from the ops, and its
/// fixpoint.
void completion(benchmark::State &state, const char *model) {
  Fixture fixture(state.range(0));
  fixture.elaborateAll();
  const auto written = lowerCommunication(*fixture.program, *fixture.index, CommunicationPlacement::Early);
  const ChannelRules rules = *channelRulesNamed(model);
  for (auto _ : state)
    if (stuckUnder(*written, rules))
      std::abort();
  countOps(state, *written);
}
void completionUnbounded(benchmark::State &state) { completion(state, "unbounded"); }
void completionEager(benchmark::State &state) { completion(state, "eager(2)"); }
void completionRendezvous(benchmark::State &state) { completion(state, "rendezvous"); }
void completionNccl(benchmark::State &state) { completion(state, "nccl"); }

void sharding(benchmark::State &state) {
  Fixture fixture(state.range(0));
  fixture.elaborateAll();
  for (auto _ : state)
    benchmark::DoNotOptimize(lowerSharding(*fixture.program));
  countOps(state, *fixture.program);
}

void reductions(benchmark::State &state) {
  Fixture fixture(state.range(0));
  fixture.elaborateAll();
  for (auto _ : state)
    benchmark::DoNotOptimize(lowerReductions(*fixture.program));
  countOps(state, *fixture.program);
}

/// Items are cells.
template <bool withCommunication> void pytorchExport(benchmark::State &state) {
  Fixture fixture(state.range(0));
  fixture.elaborateAll();
  FormattedSchedule schedule{*fixture.program, *fixture.costs, {}};
  size_t cells = 0;
  for (auto _ : state) {
    std::vector<std::string> lost;
    std::string error;
    auto text = writePytorchCsv(schedule, {.communication = withCommunication}, lost, error);
    state.PauseTiming();
    cells = static_cast<size_t>(
        std::count_if(text->begin(), text->end(), [](char c) { return c == ',' || c == '\n'; }));
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(cells));
  state.counters["cells"] = static_cast<double>(cells);
}
void exportCompute(benchmark::State &state) { pytorchExport<false>(state); }
void exportComms(benchmark::State &state) { pytorchExport<true>(state); }

#define SLUICE_STEP(step) BENCHMARK(step)->RangeMultiplier(8)->Range(16, 16384)->Unit(benchmark::kMillisecond)
SLUICE_STEP(elaboration);
SLUICE_STEP(indexing);
SLUICE_STEP(verification);
SLUICE_STEP(simulation);
SLUICE_STEP(simulationUneven);
SLUICE_STEP(simulationFifo);
SLUICE_STEP(simulationFair);
SLUICE_STEP(figures);
SLUICE_STEP(figuresUneven);

// M = 256 against 16,384 leaves the caches on the way, 4,096 against 65,536 is beyond them throughout.
#define SLUICE_PASS(step)                                                                                    \
  BENCHMARK(step)->Arg(256)->Arg(4096)->Arg(16384)->Arg(65536)->Unit(benchmark::kMillisecond)
SLUICE_PASS(earlyCommunication);
SLUICE_PASS(lateCommunication);
SLUICE_PASS(completionUnbounded);
SLUICE_PASS(completionEager);
SLUICE_PASS(completionRendezvous);
SLUICE_PASS(completionNccl);
SLUICE_PASS(sharding);
SLUICE_PASS(reductions);
SLUICE_PASS(exportCompute);
SLUICE_PASS(exportComms);

} // namespace

BENCHMARK_MAIN();
