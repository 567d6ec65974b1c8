// Every schedule of the library over a grid of sizes, run over tokens on threads, with random delays and
// under every channel model of the threads: what is observed is the order that was checked. And damaged
// tables, which the tokens must notice.
#include "Compiled.h"
#include "Forms.h"
#include "InMemory.h"
#include "TableDamage.h"
#include "TokenStage.h"

#include "Events/Completion.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::test;
using runtime::ChannelModel;
using runtime::Threads;
using RuntimeOp = runtime::Op;

namespace {

constexpr uint64_t steps = 2;

/// What each worker has done, in order, but for what is added to the ops of the schedule.
class Recorder {
public:
  explicit Recorder(std::vector<std::vector<std::string>> *order = nullptr, uint32_t devices = 0)
      : order(order), devices(devices) {}
  void onBegin(const Context &c) const {
    const bool isWait = c.op == RuntimeOp::Wait;
    const RuntimeOp op = isWait ? c.of : c.op;
    if (!runtime::isScheduled(op) || op == RuntimeOp::Scale || op == RuntimeOp::Reshard)
      return;
    const bool isTied = op == RuntimeOp::ReduceTied;
    (*order)[c.replica * devices + c.device].push_back(fmt::format("{}{} {} {}",
                                                                   isWait        ? "wait "
                                                                   : c.isStarted ? "start "
                                                                                 : "",
                                                                   name(op), isTied ? c.tie : c.stage,
                                                                   isTied ? 0 : c.microbatch));
  }
  void onEnd(const Context &) const {}

private:
  std::vector<std::vector<std::string>> *order; // by worker; each has a thread of its own
  uint32_t devices;
};

std::vector<std::string> writtenOrder(const Program &program, uint32_t device) {
  std::vector<std::string> order;
  for (uint64_t step = 0; step < steps; ++step)
    for (const sluice::Op &op : program.opsOf(device)) {
      if (op.isCommunication() || op.kind == OpKind::Scale || op.kind == OpKind::Reshard)
        continue;
      const bool isTied = op.kind == OpKind::ReduceTied;
      order.push_back(fmt::format("{}{} {} {}",
                                  op.isWait()      ? "wait "
                                  : op.isStarted() ? "start "
                                                   : "",
                                  name(op.kind).str(), isTied ? op.microbatch : op.stage,
                                  isTied ? 0 : op.microbatch));
    }
  return order;
}

template <ChannelModel model> void runOrdered(const CompiledSchedule &schedule, const InMemory &memory) {
  const uint32_t devices = schedule.program.devices;
  std::vector<std::vector<std::string>> order(devices * memory.schedule.replicas);
  using Transport = Threads<Token, model>;
  runtime::Executor<TokenStage<true>, AnySchedule, Transport, Recorder> executor(
      memory.schedule, TokenStages<true>(memory.schedule), {}, Transport{}, Recorder{&order, devices});
  try {
    executor.run(steps);
  } catch (const std::exception &error) {
    ADD_FAILURE() << schedule.name << " under model " << static_cast<int>(model) << ": " << error.what();
    return;
  }
  for (uint32_t worker = 0; worker < order.size(); ++worker)
    EXPECT_EQ(order[worker], writtenOrder(schedule.program, worker % devices))
        << schedule.name << " " << worker;
}

struct Tally {
  unsigned tried = 0, caught = 0;
  std::string missed;
};

void damageAndRun(const CompiledSchedule &schedule, unsigned turns, std::mt19937 &random, Tally &tally) {
  ExecutorTables original = assignSlots(schedule.program, schedule.costs).value();
  original.replicas = std::min(original.replicas, 2u); // of eight, all alike
  const InMemory meant(schedule.name, original);
  for (unsigned turn = 0; turn < turns; ++turn) {
    ExecutorTables damaged = original;
    const std::string what = damage(damaged, random, /*andEdges=*/false);
    if (what.empty())
      continue;
    ++tally.tried;
    try {
      const InMemory memory(schedule.name, damaged);
      runtime::Executor<TokenStage<false>, AnySchedule, Threads<Token, ChannelModel::unbounded>> executor(
          memory.schedule, TokenStages<false>(meant.schedule),
          {.noProgressLimit = std::chrono::milliseconds(40)});
      executor.run(3);
      tally.missed += schedule.name + ": " + what + "\n";
    } catch (const runtime::ExecutionError &) {
      ++tally.caught;
    }
  }
}

void expectNearlyAll(const Tally &tally, unsigned least) {
  EXPECT_GE(tally.tried, least);
  EXPECT_GE(tally.caught * 100, tally.tried * 99) << tally.missed;
  std::cout << tally.caught << " of " << tally.tried << " caught; missed:\n" << tally.missed;
}

} // namespace

TEST(Grid, TheLibraryRunsAsItWasChecked) {
  unsigned schedules = 0;
  for (const CompiledSchedule &schedule : librarySchedules(6)) {
    const ExecutorTables tables = assignSlots(schedule.program, schedule.costs).value();
    const runtime::ChannelModels verified = verifiedModels(schedule.program, schedule.costs);
    const InMemory memory(schedule.name, tables);
    ++schedules;
    runOrdered<ChannelModel::unbounded>(schedule, memory);
    if (verified.rendezvous)
      runOrdered<ChannelModel::rendezvous>(schedule, memory);
    if (verified.eager && schedules % 3 == 0)
      runOrdered<ChannelModel::eager>(schedule, memory);
  }
  EXPECT_GE(schedules, 500u);
  std::cout << schedules << " schedules\n";
}

TEST(Grid, FormsRunAsTheyWereChecked) {
  for (const Form &form : forms)
    for (const CompiledSchedule &schedule : compileSchedules(form.text, {})) {
      const ExecutorTables tables = assignSlots(schedule.program, schedule.costs).value();
      const InMemory memory(schedule.name, tables);
      runOrdered<ChannelModel::unbounded>(schedule, memory);
    }
}

TEST(Grid, DamagedFormsAreCaught) {
  std::mt19937 random(21);
  Tally tally;
  for (const Form &form : forms)
    for (const CompiledSchedule &schedule : compileSchedules(form.text, {}))
      damageAndRun(schedule, 20, random, tally);
  expectNearlyAll(tally, 300);
}

TEST(Grid, DamagedSchedulesOfTheLibraryAreCaught) {
  std::mt19937 random(22);
  Tally tally;
  for (const CompiledSchedule &schedule : librarySchedules(3))
    damageAndRun(schedule, 2, random, tally);
  expectNearlyAll(tally, 200);
}
