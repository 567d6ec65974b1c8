// What a run does when a callback throws, when nothing moves any more, and what an observer sees.
#include "InMemory.h"
#include "Schedules.h"
#include "TokenStage.h"

#include <chrono>
#include <gtest/gtest.h>
#include <mutex>
#include <set>

using namespace sluice;
using namespace sluice::test;
using runtime::Context;
using runtime::Copy;
using runtime::ExecutionError;

namespace {

struct Plan {
  uint32_t device = 0, index = 0;
  uint64_t step = 0;
};

/// Throws where the plan says, from whichever callback that is.
class Thrower {
public:
  explicit Thrower(const Plan *plan) : plan(plan) {}
  void onBegin(const Context &c) const {
    if (c.device == plan->device && c.index == plan->index && c.step == plan->step)
      throw std::runtime_error("no more memory");
  }
  void onEnd(const Context &) const {}

private:
  const Plan *plan;
};

struct Record {
  std::mutex mutex;
  std::vector<std::vector<Context>> perDevice;
};
class Recorder {
public:
  explicit Recorder(Record *record) : record(record) {}
  void onBegin(const Context &) {}
  void onEnd(const Context &c) {
    std::lock_guard lock(record->mutex);
    record->perDevice[c.device].push_back(c);
  }

private:
  Record *record;
};

/// Loses the last gradient that stage 2 sends.
class Lossy : public runtime::Threads<Token> {
public:
  Request startSend(const runtime::Message &message, Token &boundary) {
    if (message.op == runtime::Op::SendGradient && message.microbatch == 2 && message.stage == 2)
      return runtime::Threads<Token>::Request();
    return runtime::Threads<Token>::startSend(message, boundary);
  }
  bool wait(const Request &request, runtime::Waiter &waiter) {
    return request.slot == nullptr || runtime::Threads<Token>::wait(request, waiter);
  }
};

template <class Transport, class Observer>
auto makeTokenExecutor(const AnySchedule &schedule, Observer observer, runtime::Options options = {}) {
  return std::make_unique<runtime::Executor<TokenStage<false>, AnySchedule, Transport, Observer>>(
      schedule, TokenStages<false>(schedule), options, Transport(), std::move(observer));
}

} // namespace

TEST(Failure, AThrowAnywhereEndsAllWorkersAndNamesTheOp) {
  using std::chrono::steady_clock;
  steady_clock::duration slowest{};
  unsigned throws = 0;
  for (const Program &program : {gpipe(3, 3), oneFOneB(4, 3), zbH1(3, 3), interleaved(2, 2, 2),
                                 recomputing(2, 2), listScheduled(Shape::Bidirectional, 4, 4, true, 3)}) {
    const ExecutorTables tables = lower(program);
    const InMemory memory(program.name, tables);
    for (uint32_t device = 0; device < tables.devices.size(); ++device)
      for (uint32_t index = 0; index < tables.devices[device].rows.size(); ++index) {
        const Plan plan{device, index, index % 2};
        auto executor = makeTokenExecutor<runtime::Threads<Token>>(memory.schedule, Thrower(&plan));
        const auto begin = steady_clock::now();
        try {
          executor->run(2);
          ADD_FAILURE() << "ran to its end";
        } catch (const ExecutionError &error) {
          slowest = std::max(slowest, steady_clock::now() - begin);
          ++throws;
          EXPECT_EQ(error.schedule, program.name);
          EXPECT_EQ(error.device, device);
          EXPECT_EQ(error.index, index);
          EXPECT_EQ(error.step, plan.step);
          EXPECT_EQ(error.op, runtime::describe(tables.devices[device].rows[index]));
          EXPECT_THROW(std::rethrow_if_nested(error), std::runtime_error);
        }
        EXPECT_THROW(executor->run(1), std::logic_error);
      }
  }
  EXPECT_GT(throws, 250u);
  EXPECT_LT(slowest, std::chrono::seconds(2));
  std::cout << throws << " throws, the slowest run ended after "
            << std::chrono::duration_cast<std::chrono::microseconds>(slowest).count() << " us\n";
}

TEST(Failure, TheMessageSaysWhereAndWhy) {
  const ExecutorTables tables = lower(oneFOneB(2, 2));
  const InMemory memory("one_f_one_b", tables);
  const Plan plan{1, 3, 0};
  auto executor = makeTokenExecutor<runtime::Threads<Token>>(memory.schedule, Thrower(&plan));
  try {
    executor->run(1);
    FAIL();
  } catch (const ExecutionError &error) {
    EXPECT_STREQ(error.what(), "schedule one_f_one_b, device 1, loss(1, 0), row 3, step 0: no more memory");
  }
}

TEST(Failure, NoProgressSaysWhoWaitsForWhom) {
  const ExecutorTables tables = lower(gpipe(3, 3));
  const InMemory memory("gpipe", tables);
  auto executor = makeTokenExecutor<Lossy>(memory.schedule, runtime::NoObserver(),
                                           {.noProgressLimit = std::chrono::milliseconds(100)});
  try {
    executor->run(1);
    FAIL();
  } catch (const ExecutionError &error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("no progress for 100 ms"), std::string::npos) << text;
    // Pairs are by order, so the lost message moves every later one: the last never comes, or a token is
    // wrong.
    EXPECT_NE(text.find("waits for recv_gradient(1, 2) with device 2"), std::string::npos) << text;
    EXPECT_NE(text.find("device 2 has finished"), std::string::npos) << text;
  }
}

TEST(Failure, CrossedReceivesAreACycle) {
  // Two devices that each receive before they send: stuck under any channel model.
  using runtime::Instruction, runtime::Op, runtime::noSlot;
  ExecutorTables tables = lower(gpipe(2, 1));
  auto &rows = tables.devices[0].rows;
  const auto receive = std::ranges::find(rows, Op::ReceiveGradient, &Instruction::op);
  const auto send = std::ranges::find(rows, Op::SendActivation, &Instruction::op);
  receive->a = send->a; // the wait for the receive now stands before the send
  std::rotate(send, receive, receive + 1);
  const InMemory memory("crossed", tables);
  auto executor = makeTokenExecutor<runtime::Threads<Token>>(
      memory.schedule, runtime::NoObserver(), {.noProgressLimit = std::chrono::milliseconds(100)});
  try {
    executor->run(1);
    FAIL();
  } catch (const ExecutionError &error) {
    const std::string text = error.what();
    EXPECT_NE(
        text.find("device 0 at send_activation(0, 0), row 3, step 0, waits for recv_gradient(0, 0) with "
                  "device 1"),
        std::string::npos)
        << text;
    EXPECT_NE(text.find("cycle: device 0 -> 1 -> 0"), std::string::npos) << text;
  }
}

TEST(Observer, SeesTheOpsOfTheProgramInOrder) {
  for (const TestCase &test : allCases()) {
    if (test.program.devices > 4)
      continue;
    const ExecutorTables tables = lower(test.program);
    const InMemory memory(test.name, tables);
    Record record;
    record.perDevice.resize(test.program.devices);
    makeTokenExecutor<runtime::Threads<Token>>(memory.schedule, Recorder(&record))->run(2);
    for (uint32_t device = 0; device < test.program.devices; ++device) {
      std::vector<std::string> seen, wanted;
      for (const Context &c : record.perDevice[device])
        if (isScheduled(c.op))
          seen.push_back(
              runtime::describe({c.op, 0, static_cast<uint16_t>(c.stage), c.microbatch, 0, 0, 0, 0}));
      for (int step = 0; step < 2; ++step)
        for (const Op &op : test.program.opsOf(device))
          wanted.push_back(str(op));
      EXPECT_EQ(seen, wanted) << test.name << ", device " << device;
    }
  }
}

TEST(Context, RandomKeysDifferByStepStageMicrobatchAndSeedAlone) {
  std::set<uint64_t> keys;
  for (uint64_t seed : {0, 1})
    for (uint64_t step = 0; step < 8; ++step)
      for (uint32_t stage = 0; stage < 8; ++stage)
        for (uint32_t m = 0; m < 32; ++m)
          keys.insert(runtime::randomKey(seed, step, stage, m));
  EXPECT_EQ(keys.size(), 2u * 8 * 8 * 32);
}
