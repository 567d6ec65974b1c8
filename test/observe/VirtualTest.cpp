// Stages, transports and observers behind virtual functions: what is chosen at run time does what the same
// thing does when the compiler knows it, and what is missing says its name.
#include "CheckedStage.h"
#include "InMemory.h"
#include "Schedules.h"

#include <sluice/AnyObserver.h>
#include <sluice/AnyTransport.h>
#include <sluice/TraceObserver.h>

#include <atomic>
#include <functional>
#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::test;
using runtime::ChannelModel;

namespace {

constexpr runtime::Uses everything{.backward = true,
                                   .splitBackward = true,
                                   .recompute = true,
                                   .zero = true,
                                   .reduce = true,
                                   .update = true,
                                   .copies = true,
                                   .offload = true,
                                   .norm = true,
                                   .unshard = true,
                                   .scale = true,
                                   .tied = true,
                                   .factors = true,
                                   .skips = true,
                                   .carries = true,
                                   .versions = true};
// Whatever a schedule calls is there to be called.
static_assert(runtime::StageFitsSchedule<CheckedStage::Any, everything>::value);
static_assert(runtime::reducesByPacking<CheckedStage::Any>);
static_assert(runtime::StageFitsSchedule<runtime::AnyReducingStage<Value, Value, Value, Value, Value>,
                                         everything>::value);
static_assert(!runtime::reducesByPacking<runtime::AnyReducingStage<Value, Value>>);

/// Schedules along the chain: no callbacks with skip edges or carries.
constexpr runtime::Uses chainUses = [] {
  runtime::Uses uses = allUses;
  uses.skips = uses.carries = false;
  return uses;
}();
using ChainSchedule = runtime::Schedule<chainUses, AnySchedule::verified>;
ChainSchedule chainOf(const InMemory &memory) {
  ChainSchedule schedule{};
  static_cast<runtime::Tables &>(schedule) = memory.schedule;
  return schedule;
}
using Chosen = runtime::VirtualTransport<Value, AnySchedule::verified>;
template <ChannelModel model> Chosen threads() {
  return Chosen(std::make_unique<runtime::TransportOver<Value, runtime::Threads<Value, model>>>());
}
Chosen threads(ChannelModel model) {
  return model == ChannelModel::rendezvous ? threads<ChannelModel::rendezvous>()
         : model == ChannelModel::eager    ? threads<ChannelModel::eager>()
                                           : threads<ChannelModel::unbounded>();
}

/// Counts what it sees, in a log shared with others.
class Counter : public runtime::AnyObserver {
public:
  explicit Counter(std::atomic<int> &order) : order(order) {}
  void open(const runtime::Tables &, std::span<const uint32_t> local, uint32_t workers) override {
    isWhole = local.size() == workers;
    place = order++;
  }
  void onBegin(const Context &) override { ++begins; }
  void onEnd(const Context &) override { ++ends; }
  void onWaitBegin(uint32_t, uint32_t, uint32_t) override { ++waits; }
  void onWaitEnd(uint32_t) override { --waits; }
  std::atomic<int> &order;
  int place = -1;
  bool isWhole = false;
  std::atomic<int> begins = 0, ends = 0, waits = 0;
};

size_t rowsOf(const runtime::Tables &tables) {
  size_t rows = 0;
  for (const runtime::Device &device : tables.devices)
    rows += device.instructions.size();
  return rows;
}

/// The message of the error that a run of `stage`s ends with.
template <class MakeStage> std::string failure(const Program &program, MakeStage &&makeStage) {
  const ExecutorTables tables = lower(program);
  const InMemory memory("chosen", tables);
  runtime::Executor<CheckedStage::Any, ChainSchedule> executor(chainOf(memory), makeStage);
  try {
    executor.run();
  } catch (const runtime::ExecutionError &error) {
    return error.what();
  }
  return "";
}

} // namespace

TEST(Virtual, StagesTransportsAndObserversRunEverySchedule) {
  for (const TestCase &test : allCases()) {
    if (test.name.starts_with("dropping") || test.name.starts_with("evaluation"))
      continue; // keep other things than CheckedStage expects
    const ExecutorTables tables = lower(test.program);
    const InMemory memory(test.name, tables);
    for (const ChannelModel model :
         {ChannelModel::rendezvous, ChannelModel::eager, ChannelModel::unbounded}) {
      std::atomic<int> order = 0;
      runtime::VirtualObserver observers;
      observers.add(std::make_unique<Counter>(order));
      observers.add(std::make_unique<Counter>(order));
      observers.add(std::make_unique<runtime::ObserverOver<runtime::TraceObserver>>());
      runtime::Executor<CheckedStage::Any, ChainSchedule, Chosen, runtime::VirtualObserver> executor(
          chainOf(memory), CheckedStage::makeFor(memory.schedule), {}, threads(model), std::move(observers));
      ASSERT_NO_THROW(executor.run(3)) << test.name;
      for (int number : {0, 1}) {
        const auto &counter = static_cast<const Counter &>(*executor.observer().all()[number]);
        EXPECT_EQ(counter.place, number);
        EXPECT_TRUE(counter.isWhole);
        EXPECT_EQ(static_cast<size_t>(counter.begins), 3 * rowsOf(memory.schedule)) << test.name;
        EXPECT_EQ(counter.ends, counter.begins);
        EXPECT_EQ(counter.waits, 0);
      }
    }
  }
}

TEST(Virtual, AMissingCallbackSaysItsName) {
  struct NoWeightHalf : CheckedStage {
    using CheckedStage::CheckedStage;
    void backwardWeight(const Context &c, Value &pending) override { Any::backwardWeight(c, pending); }
  };
  const std::string text =
      failure(zbH1(2, 3), [](const runtime::Copy &) -> std::unique_ptr<CheckedStage::Any> {
        return std::make_unique<NoWeightHalf>(3);
      });
  EXPECT_NE(text.find("backward_weight("), std::string::npos) << text;
  EXPECT_NE(text.find("the schedule calls backwardWeight(c, pending), which this stage does not override"),
            std::string::npos)
      << text;
  EXPECT_EQ(failure(zbH1(2, 3),
                    [](const runtime::Copy &) -> std::unique_ptr<CheckedStage::Any> {
                      return std::make_unique<CheckedStage>(3);
                    }),
            "");
}

TEST(Virtual, EveryCallbackThatIsNotOverriddenThrowsItsOwnName) {
  runtime::AnyReducingStage<Value, Value, Value, Value, Value> stage;
  runtime::AnyStage<Value, Value, Value, Value, Value> &base = stage;
  const Context c{};
  Value v;
  const runtime::Skips<Value> skips;
  const std::pair<const char *, std::function<void()>> calls[] = {
      {"load(c,", [&] { base.load(c, v); }},
      {"forward(c,", [&] { base.forward(c, v, v, v); }},
      {"forwardBeside(c,", [&] { base.forward(c, v, v, v, skips); }},
      {"forwardBeside(c,", [&] { base.forward(c, v, v, v, skips, v); }},
      {"loss(c,", [&] { base.loss(c, v, v); }},
      {"backward(c,", [&] { base.backward(c, v, v, v); }},
      {"backwardBeside(c,", [&] { base.backward(c, v, v, v, skips); }},
      {"backwardInput(c,", [&] { base.backwardInput(c, v, v, v, v); }},
      {"backwardInputBeside(c,", [&] { base.backwardInput(c, v, v, v, v, skips, v); }},
      {"backwardWeight(c,", [&] { base.backwardWeight(c, v); }},
      {"recompute(c,", [&] { base.recompute(c, v, v); }},
      {"recomputeBeside(c,", [&] { base.recompute(c, v, v, skips); }},
      {"offload(c,", [&] { base.offload(c, v, v); }},
      {"reload(c,", [&] { base.reload(c, v, v); }},
      {"zero(c)", [&] { base.zero(c); }},
      {"scale(c)", [&] { base.scale(c); }},
      {"norm(c)", [&] { base.norm(c); }},
      {"unshard(c)", [&] { base.unshard(c); }},
      {"reshard(c)", [&] { base.reshard(c); }},
      {"update(c)", [&] { base.update(c); }},
      {"pack(c,", [&] { base.pack(c, v); }},
      {"add(c,", [&] { base.add(c, v); }},
      {"unpack(c,", [&] { base.unpack(c, v); }},
      {"reduce(c)", [&] { stage.reduce(c); }},
      {"reduceTied(c)", [&] { stage.reduceTied(c); }},
  };
  for (const auto &[name, call] : calls)
    try {
      call();
      ADD_FAILURE() << name << " does not throw";
    } catch (const std::logic_error &error) {
      EXPECT_TRUE(std::string(error.what()).starts_with(std::string("the schedule calls ") + name))
          << name << ": " << error.what();
    }
  // Those that may be missing: nothing, or what the runtime does for a stage without them.
  v = {Value::Saved, 1, 1, 1};
  base.shape(c, v);
  base.finish(c);
  base.finish(c, v, v);
  base.prepare({}, {});
  EXPECT_EQ(v.kind, Value::Saved);
  base.drop(c, v);
  EXPECT_EQ(v.kind, Value::Nothing);
}

TEST(Virtual, WhatSkipsAndSplitsHandOverArrives) {
  struct Skipping : runtime::AnyStage<Value, Value, Value, Value, int> {
    void forwardBeside(const Context &, const Value &, Value &, Value &,
                       const runtime::Beside<Value, int> &beside) override {
      inputs = beside.skips.inputs.size();
      carry = beside.carry;
    }
    size_t inputs = 0;
    int *carry = nullptr;
  } stage;
  runtime::AnyStage<Value, Value, Value, Value, int> &base = stage;
  Value v;
  int carry = 0;
  const Value *one[] = {&v};
  const runtime::Skips<Value> skips{one, {}};
  base.forward(Context{}, v, v, v, skips);
  EXPECT_EQ(stage.inputs, 1u);
  EXPECT_EQ(stage.carry, nullptr);
  base.forward(Context{}, v, v, v, carry);
  EXPECT_EQ(stage.inputs, 0u);
  EXPECT_EQ(stage.carry, &carry);
  base.forward(Context{}, v, v, v, skips, carry);
  EXPECT_EQ(stage.inputs, 1u);
  EXPECT_EQ(stage.carry, &carry);
}

TEST(Virtual, ATransportOfAnotherChannelModelIsRefusedByName) {
  using Strict = runtime::VirtualTransport<Value, runtime::ChannelModels{true, true, false, false, false}>;
  EXPECT_NO_THROW(Strict(
      std::make_unique<runtime::TransportOver<Value, runtime::Threads<Value, ChannelModel::eager>>>()));
  try {
    Strict(std::make_unique<runtime::TransportOver<Value, runtime::Threads<Value>>>());
    FAIL();
  } catch (const std::invalid_argument &error) {
    EXPECT_STREQ(error.what(), "the transport offers the channel model rendezvous, and the schedule was "
                               "verified under unbounded, eager");
  }
}
