// Executors of every construct of the language over tokens, on threads with every channel model that they
// were verified for, several steps; and a throw at every row of them.
#include "Forms.h"
#include "Compiled.h"
#include "InMemory.h"
#include "TokenStage.h"

#include "Events/Completion.h"

#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::test;
using runtime::ChannelModel;
using runtime::Threads;

namespace {

ExecutorTables tablesOf(const CompiledSchedule &schedule) {
  ExecutorTables tables = assignSlots(schedule.program, schedule.costs).value();
  tables.verified = verifiedModels(schedule.program, schedule.costs);
  return tables;
}

std::vector<CompiledSchedule> formSchedules() {
  std::vector<CompiledSchedule> result;
  for (const Form &form : forms) {
    std::string findings;
    std::vector<CompiledSchedule> schedules = compileSchedules(form.text, {}, &findings);
    EXPECT_FALSE(schedules.empty()) << form.name << "\n" << findings;
    for (CompiledSchedule &schedule : schedules)
      result.push_back(std::move(schedule));
  }
  return result;
}

/// Throws at one row of one worker.
struct Thrower {
  uint32_t replica = 0, device = 0, index = 0;
  uint64_t step = 0;
  void onBegin(const Context &c) const {
    if (c.replica == replica && c.device == device && c.index == index && c.step == step)
      throw std::runtime_error("no more memory");
  }
  void onEnd(const Context &) const {}
};

} // namespace

TEST(Forms, EveryConstructRunsOverTokens) {
  unsigned schedules = 0, runs = 0;
  for (const CompiledSchedule &schedule : formSchedules()) {
    const ExecutorTables tables = tablesOf(schedule);
    const InMemory memory(schedule.name, tables);
    ++schedules;
    for (int turn = 0; turn < 4; ++turn) {
      if (tables.verified.rendezvous) {
        EXPECT_NO_THROW((runTokens<true, Threads<Token>>(memory.schedule, 5))) << schedule.name;
        ++runs;
      }
      if (tables.verified.eager) {
        EXPECT_NO_THROW((runTokens<true, Threads<Token, ChannelModel::eager>>(memory.schedule, 5)))
            << schedule.name;
        ++runs;
      }
      EXPECT_NO_THROW((runTokens<true, Threads<Token, ChannelModel::unbounded>>(memory.schedule, 5)))
          << schedule.name;
      ++runs;
    }
  }
  EXPECT_GE(schedules, 28u);
  EXPECT_GE(runs, 300u);
}

TEST(Forms, AThrowAnywhereEndsAllWorkersAndNamesTheOp) {
  using std::chrono::steady_clock;
  steady_clock::duration slowest{};
  unsigned throws = 0;
  bool seen[runtime::opCount] = {};
  for (const CompiledSchedule &schedule : formSchedules()) {
    ExecutorTables tables = tablesOf(schedule);
    tables.replicas = std::min(tables.replicas, 2u); // of eight, all alike
    const InMemory memory(schedule.name, tables);
    for (uint32_t replica = 0; replica < tables.replicas; ++replica)
      for (uint32_t device = 0; device < tables.devices.size(); ++device)
        for (uint32_t index = 0; index < tables.devices[device].rows.size(); ++index) {
          const runtime::Instruction &row = tables.devices[device].rows[index];
          if (runtime::isOperand(row.op))
            continue;
          seen[static_cast<size_t>(row.op)] = true;
          runtime::Executor<TokenStage<false>, AnySchedule, Threads<Token, ChannelModel::unbounded>, Thrower>
              executor(memory.schedule, TokenStages<false>(memory.schedule), {}, {},
                       Thrower{replica, device, index, index % 2});
          const auto begin = steady_clock::now();
          try {
            executor.run(2);
            ADD_FAILURE() << schedule.name << ": ran to its end";
          } catch (const runtime::ExecutionError &error) {
            slowest = std::max(slowest, steady_clock::now() - begin);
            ++throws;
            EXPECT_EQ(error.replica, replica) << error.what();
            EXPECT_EQ(error.device, device) << error.what();
            EXPECT_EQ(error.index, index) << error.what();
            EXPECT_EQ(error.step, index % 2) << error.what();
            EXPECT_EQ(error.op, runtime::describe(row)) << error.what();
            EXPECT_NE(std::string(error.what()).find("no more memory"), std::string::npos) << error.what();
          }
        }
  }
  for (unsigned op = 0; op < runtime::opCount; ++op)
    EXPECT_TRUE(seen[op] || runtime::isOperand(static_cast<runtime::Op>(op)))
        << runtime::name(static_cast<runtime::Op>(op)) << " is in no form";
  EXPECT_GT(throws, 600u);
  EXPECT_LT(slowest, std::chrono::seconds(5));
  std::cout << throws << " throws, the slowest run ended after "
            << std::chrono::duration_cast<std::chrono::microseconds>(slowest).count() << " us\n";
}
