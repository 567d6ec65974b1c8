// The runtime's other promises: transports of one's own, sums in one order, patience with slow callbacks.
#include "IdleStage.h"
#include "InMemory.h"
#include "Schedules.h"
#include "TokenStage.h"

#include <cmath>
#include <cstring>
#include <deque>
#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::test;
using runtime::Context;
using runtime::Copy;

namespace {

/// A transport as a user would write one: it copies into queues that hold any number of messages.
class Queues {
public:
  static constexpr runtime::ChannelModel channelModel = runtime::ChannelModel::unbounded;
  struct Request {
    uint32_t channel = 0;
    Token *target = nullptr; ///< Null for a send, which is complete at once.
  };

  void open(const runtime::Network &network, runtime::Supervisor &supervisor) {
    queues = std::make_unique<Queue[]>(network.lines.size());
    for (size_t channel = 0; channel < network.lines.size(); ++channel)
      queues[channel].receiver = &supervisor.waiter(network.lines[channel].to);
  }
  Request startSend(const runtime::Message &message, Token &boundary) {
    Queue &queue = queues[message.channel];
    {
      std::lock_guard lock(queue.mutex);
      queue.tokens.push_back(boundary);
    }
    boundary = {}; // nobody may rely on what was sent
    queue.sent.fetch_add(1);
    queue.receiver->wake();
    return {message.channel, nullptr};
  }
  Request startReceive(const runtime::Message &message, Token &boundary) {
    std::lock_guard lock(queues[message.channel].mutex);
    queues[message.channel].targets.push_back(&boundary);
    return {message.channel, &boundary};
  }
  bool wait(const Request &request, runtime::Waiter &waiter) {
    if (!request.target)
      return true;
    // Receives of a channel complete in the order they were started, whichever is waited for first.
    Queue &queue = queues[request.channel];
    for (Token *filled = nullptr; filled != request.target;) {
      if (queue.isFilled(request.target))
        return true;
      if (!waiter.until([&] { return queue.sent.load() > queue.received; }))
        return false;
      filled = queue.fillNext();
    }
    return true;
  }

private:
  struct Queue {
    bool isFilled(Token *target) {
      std::lock_guard lock(mutex);
      return std::ranges::find(targets, target) == targets.end();
    }
    Token *fillNext() {
      std::lock_guard lock(mutex);
      Token *target = targets.front();
      *target = tokens.front();
      tokens.pop_front();
      targets.pop_front();
      ++received;
      return target;
    }
    std::mutex mutex;
    std::deque<Token> tokens;
    std::deque<Token *> targets;
    std::atomic<uint64_t> sent = 0;
    uint64_t received = 0; // by the receiver's thread alone
    runtime::Waiter *receiver = nullptr;
  };
  std::unique_ptr<Queue[]> queues;
};

/// Adds up numbers whose sum depends on the order they are added in.
class Adder : public IdleStage<double> {
public:
  template <class... More> void forward(const Context &c, const double &, double &, int &, More &...) {
    delay(c);
  }
  template <class... More> void backward(const Context &c, const double &, int &, double &, More &...) {
    delay(c);
    const double value =
        std::ldexp(static_cast<double>(c.randomKey >> 11), static_cast<int>(c.microbatch * 7) - 60);
    gradient = c.firstContribution ? value : gradient + value;
  }
  void pack(const Context &, double &part) { part = gradient; }
  void unpack(const Context &c, const double &part) {
    delay(c);
    gradient = part;
  }
  void add(const Context &c, const double &part) {
    delay(c);
    gradient += part;
  }
  void update(const Context &) {
    uint64_t bits;
    std::memcpy(&bits, &gradient, sizeof bits);
    hash = runtime::mixBits(hash ^ bits);
  }
  double gradient = 0;
  uint64_t hash = 0;
};

/// Sleeps in one op while all other devices wait for it.
class Slow {
public:
  void onBegin(const Context &c) {
    if (c.op == runtime::Op::Backward && c.device == 2 && c.microbatch == 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(400));
  }
  void onEnd(const Context &) {}
};

class ThrowsNumbers {
public:
  void onBegin(const Context &c) {
    if (c.op == runtime::Op::Update)
      throw 42;
  }
  void onEnd(const Context &) {}
};

template <class Transport, class Observer = runtime::NoObserver>
void runTokensOver(const AnySchedule &schedule, runtime::Options options = {}) {
  runtime::Executor<TokenStage<true>, AnySchedule, Transport, Observer> executor(
      schedule, TokenStages<true>(schedule), options);
  executor.run(3);
}

} // namespace

TEST(Runtime, AnotherTransportRunsTheSameTables) {
  for (const TestCase &test : allCases()) {
    if (test.program.devices > 4)
      continue;
    const ExecutorTables tables = lower(test.program);
    const InMemory memory(test.name, tables);
    EXPECT_NO_THROW(runTokensOver<Queues>(memory.schedule)) << test.name;
  }
}

TEST(Runtime, SumsOverCopiesAndReplicasHaveTheSameBitsInEveryRun) {
  ExecutorTables tables = lower(listScheduled(Shape::Bidirectional, 4, 8, false, 5));
  for (uint32_t replicas : {1u, 3u}) {
    tables.replicas = replicas;
    const InMemory memory("bidirectional", tables);
    std::vector<uint64_t> first;
    for (int run = 0; run < 20; ++run) {
      runtime::Executor<Adder, AnySchedule> executor(memory.schedule,
                                                     [](const Copy &) { return std::make_unique<Adder>(); });
      executor.run(10);
      std::vector<uint64_t> hashes;
      for (const auto &copy : executor.copies())
        hashes.push_back(copy->hash);
      if (run == 0)
        first = hashes;
      EXPECT_EQ(hashes, first) << "run " << run;
    }
    // Copies of a stage, listed next to each other, hold the same sum in all replicas; stages differ.
    ASSERT_EQ(first.size(), 8u * replicas);
    for (size_t copy = 0; copy < first.size(); ++copy)
      EXPECT_EQ(first[copy], first[copy % 8 / 2 * 2]) << copy;
    EXPECT_NE(first[0], first[2]);
  }
}

TEST(Runtime, ASlowCallbackIsNotStuck) {
  const ExecutorTables tables = lower(gpipe(4, 2));
  const InMemory memory("gpipe", tables);
  EXPECT_NO_THROW((runTokensOver<runtime::Threads<Token>, Slow>(
      memory.schedule, {.noProgressLimit = std::chrono::milliseconds(100)})));
}

TEST(Runtime, AnythingMayBeThrown) {
  const ExecutorTables tables = lower(gpipe(1, 1));
  const InMemory memory("gpipe", tables);
  try {
    runTokensOver<runtime::Threads<Token>, ThrowsNumbers>(memory.schedule);
    FAIL();
  } catch (const runtime::ExecutionError &error) {
    EXPECT_STREQ(error.what(), "schedule gpipe, device 0, update(0), row 5, step 0: an exception that is no "
                               "std::exception");
    EXPECT_THROW(std::rethrow_if_nested(error), int);
  }
}

TEST(Runtime, OneRunOfManyStepsEqualsManyRuns) {
  const ExecutorTables tables = lower(oneFOneB(3, 4));
  const InMemory memory("one_f_one_b", tables);
  auto make = [](const Copy &) { return std::make_unique<Adder>(); };
  runtime::Executor<Adder, AnySchedule> together(memory.schedule, make), apart(memory.schedule, make);
  together.run(12);
  for (int step = 0; step < 12; ++step)
    apart.run();
  EXPECT_EQ(together.stepsDone(), 12u);
  EXPECT_EQ(apart.stepsDone(), 12u);
  for (uint32_t stage = 0; stage < 3; ++stage)
    EXPECT_EQ(together.stage(stage).hash, apart.stage(stage).hash);
}
