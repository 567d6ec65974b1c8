// One process of a test over MPI: MpiTokens SCENARIO ARGUMENTS… as many processes as the schedule has
// devices. Runs schedules whose buffers say what they are (TokenStage); prints what a script then checks.
#include "Compiled.h"
#include "Scenarios.h"

#include "Events/Completion.h"

#include <fstream>
#include <sstream>

using namespace sluice;
using namespace sluice::test;
using runtime::ChannelModel, runtime::ExecutionError, runtime::Mpi, runtime::MpiProcess;

using Synchronous = Mpi<Token>;
using Buffered = Mpi<Token, ChannelModel::unbounded>;

// Elements of a vector are moved; a vector is not, nor are pointers, and what has bytes() of its own keeps to
// it.
static_assert(runtime::isPlainRow<std::vector<float>> && runtime::isPlainRow<std::span<double>>);
static_assert(!runtime::isPlainRow<std::vector<int *>> &&
              !runtime::isPlainRow<std::vector<std::vector<int>>>);
static_assert(!runtime::isPlainRow<std::vector<bool>> && !runtime::isPlainRow<int>);

namespace {

std::vector<Program> programsOf(uint32_t P) {
  return {gpipe(P, 2 * P),
          gpipeReversed(P, P),
          oneFOneB(P, 2 * P),
          oneFOneB(P, 1),
          zbH1(P, 2 * P),
          interleaved(P, 2 * P, 2),
          recomputing(P, 2 * P),
          overlapped(P, 2 * P),
          evaluation(P, 2 * P),
          zeroing(P, 2 * P),
          listScheduled(Shape::V, P, P, false, 1),
          listScheduled(Shape::Linear, P, P, true, 2),
          listScheduled(Shape::Bidirectional, P, P, false, 3)}; // copies, and so sums over processes
}

/// Every program under both kinds of sends, several runs of several steps each.
template <class Transport> void runAll(int rank, uint32_t processes, const char *kind) {
  unsigned done = 0;
  for (const Program &program : programsOf(processes)) {
    const ExecutorTables tables = lower(program);
    const InMemory memory(program.name, tables);
    const auto executor = makeMpiExecutor<Transport>(memory.schedule);
    executor->run(3);
    executor->run(1);
    executor->run(2);
    done += executor->stepsDone() == 6;
  }
  say(rank, kind, std::to_string(done) + " schedules");
}

/// Fails in every process and says so. The world is broken afterwards.
template <class Run> [[noreturn]] void expectFailure(int rank, Run &&run) {
  try {
    run();
    say(rank, "finished", "");
  } catch (const ExecutionError &error) {
    bool isNested = false;
    try {
      std::rethrow_if_nested(error);
    } catch (const std::runtime_error &) {
      isNested = true;
    }
    say(rank, isNested ? "thrown" : "told", error.what());
  } catch (const std::exception &error) {
    say(rank, "otherwise", error.what());
  }
  MpiProcess::abandon(1);
}

/// A throw at every row of a schedule, one after the other; all processes must say the same.
void throwEverywhere(int rank, uint32_t processes) {
  const Program program = oneFOneB(processes, 3);
  const ExecutorTables tables = lower(program);
  const InMemory memory(program.name, tables);
  unsigned right = 0;
  double slowest = 0;
  for (uint32_t device = 0; device < processes; ++device)
    for (uint32_t index = 0; index < tables.devices[device].rows.size(); ++index) {
      const uint64_t step = index % 2;
      const auto executor =
          makeMpiExecutor<Synchronous>(memory.schedule, {}, Unlucky(Accident::Throw, device, index, step));
      const double begin = now();
      try {
        executor->run(2);
      } catch (const ExecutionError &error) {
        right += error.device == device && error.index == index && error.step == step &&
                 std::string(error.what()).ends_with(": no more memory");
      }
      slowest = std::max(slowest, now() - begin);
    }
  say(rank, "throws", std::to_string(right) + " right, slowest " + std::to_string(slowest) + " s");
  MpiProcess::abandon(0); // sends are open for ever
}

/// The program of a file whose messages wait where they stand. Process 0 says the cycle that the compiler
/// finds under synchronous sends; then the program runs with buffered ones, and is stuck with synchronous
/// ones.
[[noreturn]] void runNaive(int rank, const std::string &path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const std::vector<CompiledSchedule> compiled = compileSchedules(text.str(), {});
  const CompiledSchedule &naive = compiled.at(0);
  ChannelRules synchronous;
  synchronous.depth = 0;
  std::string cycle;
  for (const WaitHop &hop : stuckUnder(naive.program, synchronous).value_or(WaitCycle()))
    cycle +=
        "device " + std::to_string(hop.device) + " stands at " + str(naive.program.ops[hop.stands]) + "; ";
  if (rank == 0)
    say(rank, "cycle", cycle);

  const ExecutorTables tables = assignSlots(naive.program, naive.costs).value();
  const InMemory memory("naive", tables);
  makeMpiExecutor<Buffered>(memory.schedule)->run(3);
  say(rank, "buffered", "3 steps");
  expectFailure(rank, [&] {
    makeMpiExecutor<Synchronous>(memory.schedule, {.noProgressLimit = std::chrono::milliseconds(400)})
        ->run(1);
  });
}

} // namespace

int main(int argc, char **argv) {
  const MpiProcess mpi(argc, argv);
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string scenario = words.empty() ? "" : words[0];
  const auto number = [&](size_t at) { return static_cast<uint32_t>(std::stoul(words.at(at))); };
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const uint32_t processes = static_cast<uint32_t>(size);
  const int rank = mpi.rank();

  if (scenario == "tokens") {
    runAll<Synchronous>(rank, processes, "synchronous");
    runAll<Buffered>(rank, processes, "buffered");
    return 0;
  }
  if (scenario == "throws")
    throwEverywhere(rank, processes);
  if (scenario == "naive")
    runNaive(rank, words.at(1));

  // kill|stop|throw WORKER ROW STEP LIMIT_MS
  const std::map<std::string, Accident> accidents = {
      {"kill", Accident::Kill}, {"stop", Accident::Stop}, {"throw", Accident::Throw}};
  if (const auto found = accidents.find(scenario); found != accidents.end()) {
    const Program program = oneFOneB(processes, 2 * processes);
    const ExecutorTables tables = lower(program);
    const InMemory memory(program.name, tables);
    expectFailure(rank, [&] {
      const runtime::Options options{.noProgressLimit = std::chrono::milliseconds(number(4))};
      makeMpiExecutor<Synchronous>(memory.schedule, options,
                                   Unlucky(found->second, number(1), number(2), number(3)))
          ->run(number(3) + 2);
    });
  }
  if (scenario == "between") { // killed between two runs: the next one says so
    const Program program = oneFOneB(processes, processes);
    const ExecutorTables tables = lower(program);
    const InMemory memory(program.name, tables);
    expectFailure(rank, [&] {
      const auto executor = makeMpiExecutor<Synchronous>(memory.schedule);
      executor->run(1);
      if (rank == 1) {
        say(rank, "accident", "");
        raise(SIGKILL);
      }
      executor->run(1);
    });
  }
  if (scenario == "leave") { // one process makes fewer runs than the others
    const Program program = oneFOneB(processes, processes);
    const ExecutorTables tables = lower(program);
    const InMemory memory(program.name, tables);
    expectFailure(rank, [&] {
      auto executor = makeMpiExecutor<Synchronous>(memory.schedule);
      executor->run(1);
      if (rank != static_cast<int>(number(1)))
        executor->run(1);
      executor.reset();
      if (rank == static_cast<int>(number(1)))
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
    });
  }
  if (scenario == "mismatch") // processes that do not fit each other
    expectFailure(rank, [&] {
      const ExecutorTables tables = lower(oneFOneB(processes + number(1), processes));
      InMemory memory("one_f_one_b", tables);
      memory.schedule.provenance.digest = rank == 1 ? "other" : "same";
      makeMpiExecutor<Synchronous>(memory.schedule)->run(1);
    });
  if (scenario == "crossed") // two processes that each receive before they send
    expectFailure(rank, [&] {
      using runtime::Instruction, runtime::Op;
      ExecutorTables tables = lower(gpipe(processes, 1));
      auto &rows = tables.devices[0].rows;
      const auto receive = std::ranges::find(rows, Op::ReceiveGradient, &Instruction::op);
      const auto send = std::ranges::find(rows, Op::SendActivation, &Instruction::op);
      receive->a = send->a;
      std::rotate(send, receive, receive + 1);
      const InMemory memory("crossed", tables);
      makeMpiExecutor<Synchronous>(memory.schedule, {.noProgressLimit = std::chrono::milliseconds(400)})
          ->run(1);
    });
  std::fprintf(stderr,
               "usage: MpiTokens tokens|throws|kill|stop|throw|between|leave|mismatch|crossed|naive …\n");
  return 2;
}
