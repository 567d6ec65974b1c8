// Joint ops beside each other and beside messages: whoever has started one does not hold up the others.
#include "IdleStage.h"
#include "InMemory.h"

#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::test;
using runtime::ChannelModel;
using runtime::Context;
using runtime::Copy;
using runtime::Instruction;
using runtime::noSlot;
using RowOp = runtime::Op;
using runtime::Threads;

namespace {

constexpr std::chrono::milliseconds patience(300);

Instruction row(RowOp op, uint8_t flags = 0, uint32_t a = noSlot, uint32_t b = noSlot) {
  return {op, flags, 0, runtime::isMessage(op) ? 0 : runtime::noMicrobatch, a, b, noSlot, noSlot};
}
Instruction waitFor(RowOp op, uint32_t a = noSlot) {
  return {
      RowOp::Wait, 0,     0, runtime::isMessage(op) ? 0 : runtime::noMicrobatch, a, static_cast<uint32_t>(op),
      noSlot,      noSlot};
}

/// Two devices with one stage each the same, and a channel from each to the other.
ExecutorTables twoCopies(std::vector<Instruction> zero, std::vector<Instruction> one) {
  ExecutorTables tables;
  tables.stages = tables.microbatches = 1;
  tables.lossFactors = {{1, 1}};
  tables.copies = {{0, 0}, {0, 1}};
  tables.channels = {{0, 1}, {1, 0}};
  tables.devices.resize(2);
  tables.devices[0].rows = std::move(zero);
  tables.devices[1].rows = std::move(one);
  for (DeviceTable &device : tables.devices)
    device.boundaries = 1;
  return tables;
}

/// Counts what it has been given.
struct Counter : IdleStage<int> {
  void pack(const Context &, int &part) { part = 1; }
  void unpack(const Context &, const int &part) { sum = part; }
  void add(const Context &, const int &part) { sum += part; }
  void update(const Context &c) {
    EXPECT_EQ(sum, 2) << "device " << c.device << ", step " << c.step;
    sum = 0;
    ++updates;
  }
  int sum = 0, updates = 0;
};

template <class Transport> void runCounters(const ExecutorTables &tables, int updates) {
  const InMemory memory("joint", tables);
  runtime::Executor<Counter, AnySchedule, Transport> executor(
      memory.schedule, [](const Copy &) { return std::make_unique<Counter>(); },
      {.noProgressLimit = patience});
  ASSERT_NO_THROW(executor.run(50));
  for (const auto &copy : executor.copies())
    EXPECT_EQ(copy->updates, updates);
}
void runCounters(const ExecutorTables &tables, int updates) {
  runCounters<Threads<int>>(tables, updates);
  runCounters<Threads<int, ChannelModel::eager>>(tables, updates);
  runCounters<Threads<int, ChannelModel::unbounded>>(tables, updates);
}

} // namespace

TEST(Joint, IsCompleteOnceAllHaveStartedIt) {
  // Device 1 waits for its reduction before it sends what device 0 needs to come to its own wait.
  runCounters(
      twoCopies({row(RowOp::Reduce, runtime::Started), row(RowOp::ReceiveActivation, 0, 0, 1),
                 waitFor(RowOp::ReceiveActivation, 0), waitFor(RowOp::Reduce), row(RowOp::Update)},
                {row(RowOp::Reduce, runtime::Started), waitFor(RowOp::Reduce),
                 row(RowOp::SendActivation, 0, 0, 1), waitFor(RowOp::SendActivation, 0), row(RowOp::Update)}),
      50);
}

TEST(Joint, OneThatIsNotStartedHoldsUp) {
  // The same, but device 0 sits in its receive first: stuck, and the report says so.
  const ExecutorTables tables = twoCopies(
      {row(RowOp::ReceiveActivation, 0, 0, 1), waitFor(RowOp::ReceiveActivation, 0), row(RowOp::Reduce)},
      {row(RowOp::Reduce), row(RowOp::SendActivation, 0, 0, 1), waitFor(RowOp::SendActivation, 0)});
  const InMemory memory("joint", tables);
  runtime::Executor<Counter, AnySchedule> executor(memory.schedule,
                                                   [](const Copy &) { return std::make_unique<Counter>(); },
                                                   {.noProgressLimit = patience});
  try {
    executor.run();
    FAIL();
  } catch (const runtime::ExecutionError &error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("device 1 at reduce(0), row 0, step 0, waits for reduce(0) with device 0"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("cycle: device 0 -> 1 -> 0"), std::string::npos) << text;
  }
}

TEST(Joint, TheNextBeginsWhileAnotherMemberStillHasToEndThisOne) {
  // Device 1 ends its first reduction after what device 0 sends behind the start of its second.
  runCounters(twoCopies({row(RowOp::Reduce, runtime::Started), waitFor(RowOp::Reduce), row(RowOp::Update),
                         row(RowOp::Reduce, runtime::Started), row(RowOp::SendActivation, 0, 0, 0),
                         waitFor(RowOp::SendActivation, 0), waitFor(RowOp::Reduce), row(RowOp::Update)},
                        {row(RowOp::Reduce, runtime::Started), row(RowOp::ReceiveActivation, 0, 0, 0),
                         waitFor(RowOp::ReceiveActivation, 0), waitFor(RowOp::Reduce), row(RowOp::Update),
                         row(RowOp::Reduce, runtime::Started), waitFor(RowOp::Reduce), row(RowOp::Update)}),
              100);
}

namespace {

struct Own : IdleStage<int> {
  static constexpr bool reducesByItself = true;
  void reduce(const Context &c) { started += c.isStarted; }
  void reduceTied(const Context &) {}
  void finish(const Context &c) { finished += c.of == RowOp::Reduce; }
  void scale(const Context &c) { means += c.of == RowOp::Reduce && c.factor == 0.25; }
  void pack(const Context &, int &) { ADD_FAILURE() << "packs what it reduces by itself"; }
  int started = 0, finished = 0, means = 0;
};

} // namespace

TEST(Joint, ADeviceWithoutStagesHoldsUpNoNorm) {
  struct Summer : Counter {
    void norm(const Context &c) { sum = c.member != 0 ? 1 : 0; }
  };
  ExecutorTables tables = twoCopies({row(RowOp::Norm), row(RowOp::Update)}, {row(RowOp::Norm)});
  tables.stages = 2;
  tables.copies = {{0, 0}, {1, 2}};
  tables.devices.push_back({{row(RowOp::Norm), row(RowOp::Update)}, 1, 0, 0, 0, 0});
  tables.devices.back().rows.back().stage = 1;
  const InMemory memory("joint", tables);
  runtime::Executor<Summer, AnySchedule> executor(memory.schedule,
                                                  [](const Copy &) { return std::make_unique<Summer>(); },
                                                  {.noProgressLimit = patience});
  ASSERT_NO_THROW(executor.run(50)); // Counter looks at the sum
  EXPECT_EQ(executor.stage(1).updates, 50);
}

TEST(Joint, AStageMayReachTheOtherReplicasByItself) {
  ExecutorTables tables =
      twoCopies({row(RowOp::Reduce, runtime::Started), waitFor(RowOp::Reduce), row(RowOp::Update)},
                {row(RowOp::Reduce, runtime::Started), waitFor(RowOp::Reduce), row(RowOp::Update)});
  tables.replicas = 4;
  tables.reduction.mean = true;
  const InMemory memory("joint", tables);
  std::vector<uint32_t> replicas;
  runtime::Executor<Own, AnySchedule> executor(memory.schedule,
                                               [&](const Copy &copy) {
                                                 replicas.push_back(copy.replica);
                                                 return std::make_unique<Own>();
                                               },
                                               {.replicas = 1, .replica = 3});
  executor.run(5);
  EXPECT_EQ(replicas, (std::vector<uint32_t>{3, 3}));
  EXPECT_EQ(executor.stage(0).started, 5);
  EXPECT_EQ(executor.stage(0).finished, 5);
  EXPECT_EQ(executor.stage(0).means, 5);
}

TEST(Joint, ReplicasThatCannotBeAreRefused) {
  ExecutorTables tables =
      twoCopies({row(RowOp::Reduce), row(RowOp::Update)}, {row(RowOp::Reduce), row(RowOp::Update)});
  tables.replicas = 4;
  const InMemory memory("joint", tables);
  auto reason = [&](runtime::Options options) -> std::string {
    try {
      runtime::Executor<Counter, AnySchedule>(
          memory.schedule, [](const Copy &) { return std::make_unique<Counter>(); }, options);
    } catch (const std::invalid_argument &error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(reason({}), "");
  EXPECT_NE(reason({.replicas = 3}).find("Options::replicas is 3"), std::string::npos);
  EXPECT_NE(reason({.replica = 1}).find("Options::replica is 1"), std::string::npos);
  // One replica alone, of a stage that only packs: its gradients would miss those of the others.
  EXPECT_NE(reason({.replicas = 1}).find("reducesByItself = true"), std::string::npos);
}

TEST(Joint, RowsThatTheTypeDoesNotNameAreRefused) {
  ExecutorTables tables = twoCopies({row(RowOp::Zero)}, {row(RowOp::Update)});
  const InMemory memory("joint", tables);
  constexpr runtime::Uses none{false, false, false, false, false, true, false};
  runtime::Schedule<none, runtime::ChannelModels{true, true, true, true, true}> schedule{};
  static_cast<runtime::Tables &>(schedule) = memory.schedule;
  using Executor = runtime::Executor<Counter, decltype(schedule)>;
  EXPECT_THROW(Executor(schedule, [](const Copy &) { return std::make_unique<Counter>(); }),
               std::logic_error);
}
