// Runs schedules over token stages and writes what TraceObserver recorded, and beside each trace the rows it
// must hold: NAME.trace.json, NAME.rows.json, for CheckTraces.py to compare.
#include "InMemory.h"
#include "Schedules.h"
#include "TokenStage.h"

#include <sluice/TraceObserver.h>

#include <cstdio>
#include <fstream>

using namespace sluice;
using namespace sluice::test;

namespace {

/// The tables, independently of how the observer names things.
void writeRows(const runtime::Tables &tables, const std::string &path) {
  std::ofstream out(path);
  out << "{\"first_step\":1,\"steps\":3,\"channels\":[";
  for (size_t channel = 0; channel < tables.channels.size(); ++channel)
    out << (channel == 0 ? "" : ",") << '[' << tables.channels[channel].from << ','
        << tables.channels[channel].to << ']';
  out << "],\"devices\":[";
  for (size_t device = 0; device < tables.devices.size(); ++device) {
    out << (device == 0 ? "[" : ",[");
    const std::span<const runtime::Instruction> rows = tables.devices[device].instructions;
    for (size_t row = 0; row < rows.size(); ++row)
      out << (row == 0 ? "" : ",") << "[\"" << runtime::name(rows[row].op) << "\"," << rows[row].stage << ','
          << (rows[row].microbatch == runtime::noMicrobatch ? -1 : static_cast<int64_t>(rows[row].microbatch))
          << ',' << rows[row].b << ']';
    out << ']';
  }
  out << "]}\n";
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: WriteTraces FOLDER\n");
    return 2;
  }
  const std::string folder = argv[1];
  const std::pair<const char *, Program> cases[] = {
      {"one_f_one_b", oneFOneB(4, 8)},
      {"zb_h1", zbH1(3, 6)},
      {"interleaved", interleaved(2, 4, 2)},
      {"bidirectional", listScheduled(Shape::Bidirectional, 3, 6, false, 1)},
      {"recomputing", recomputing(3, 5)},
      {"one_device", oneFOneB(1, 4)}};
  for (const auto &[name, program] : cases) {
    const ExecutorTables tables = lower(program);
    const InMemory memory(name, tables);
    using Stage = TokenStage<true>;
    runtime::Executor<Stage, AnySchedule, runtime::Threads<Token>, runtime::TraceObserver> executor(
        memory.schedule, TokenStages<true>(memory.schedule), {}, {},
        runtime::TraceObserver({.firstStep = 1, .steps = 3}));
    executor.run(2); // what is recorded goes over runs, and ends before the last of them
    executor.run(3);
    executor.observer().write(folder + "/" + name + ".trace.json");
    writeRows(memory.schedule, folder + "/" + name + ".rows.json");
  }
  return 0;
}
