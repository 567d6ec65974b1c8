// The transport over NCCL, carried out by the stand-in: callbacks enqueue checks of what their buffers hold
// when the stream comes to them. The same program links with CUDA and NCCL, which is all that is done with
// it.
#include "InMemory.h"
#include "Schedules.h"
#include "StandIn.h"

#include <sluice/Executor.h>
#include <sluice/Nccl.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>

using namespace sluice;
using namespace sluice::test;
using runtime::Context;

namespace {

struct Value {
  bool isGradient = false;
  uint32_t stage = ~0u, microbatch = 0; ///< An activation names the stage it goes into.
  uint64_t step = 0;
};

std::atomic<int> wrong = 0;

} // namespace

template <> struct sluice::runtime::NcclBuffer<Value> {
  static void *data(Value &value) { return &value; }
  static size_t count(const Value &) { return sizeof(Value); }
  static ncclDataType_t type(const Value &) { return ncclInt8; }
};

namespace {

/// Everything happens in the stream: when a callback returns its input may not have come yet.
struct StreamStage {
  using Boundary = Value;
  using Saved = Value;
  using Pending = Value;
  cudaStream_t stream;
  std::function<void(const Context &)> onUpdate;

  void load(const Context &c, Value &input) { put(input, {false, 0, c.microbatch, c.step}); }
  void forward(const Context &c, const Value &input, Value &output, Value &saved) {
    check(input, {false, c.stage, c.microbatch, c.step});
    put(output, {false, c.stage + 1, c.microbatch, c.step});
    put(saved, {false, c.stage, c.microbatch, c.step});
  }
  void loss(const Context &c, const Value &output, Value &gradient) {
    check(output, {false, c.stage + 1, c.microbatch, c.step});
    put(gradient, {true, c.stage, c.microbatch, c.step});
  }
  void backward(const Context &c, const Value &gradient, Value &saved, Value &inputGradient) {
    check(gradient, {true, c.stage, c.microbatch, c.step});
    check(saved, {false, c.stage, c.microbatch, c.step});
    put(inputGradient, {true, c.stage - 1, c.microbatch, c.step});
  }
  void backwardInput(const Context &c, const Value &gradient, Value &saved, Value &inputGradient,
                     Value &pending) {
    backward(c, gradient, saved, inputGradient);
    put(pending, {true, c.stage, c.microbatch, c.step});
  }
  void backwardWeight(const Context &c, Value &pending) {
    check(pending, {true, c.stage, c.microbatch, c.step});
  }
  void recompute(const Context &c, const Value &input, Value &saved) {
    check(input, {false, c.stage, c.microbatch, c.step});
    put(saved, {false, c.stage, c.microbatch, c.step});
  }
  void zero(const Context &) {}
  void reduce(const Context &) {}
  void update(const Context &c) {
    if (onUpdate)
      onUpdate(c);
  }

private:
  void put(Value &target, Value value) const {
    runOn([&target, value] { target = value; });
  }
  void check(const Value &found, Value wanted) const {
    runOn([&found, wanted] {
      wrong += found.isGradient != wanted.isGradient || found.stage != wanted.stage ||
               found.microbatch != wanted.microbatch || found.step != wanted.step;
    });
  }
  void runOn(std::function<void()> work) const { standIn::enqueue(stream, std::move(work)); }
};

using Uses = runtime::Uses;
constexpr Uses uses = [] {
  Uses all{true, true, true, true, true, true, false};
  return all;
}();
using TestSchedule = runtime::Schedule<uses, runtime::ChannelModels{true, true, true, true, true}>;

/// Runs steps; the message of the error, or nothing.
std::string run(const runtime::Tables &tables, uint64_t steps, runtime::NcclOptions options,
                std::chrono::milliseconds noProgress = std::chrono::seconds(10),
                std::function<void(const Context &)> onUpdate = {}) {
  standIn::reset();
  TestSchedule schedule{};
  static_cast<runtime::Tables &>(schedule) = tables;
  const uint32_t workers = static_cast<uint32_t>(tables.devices.size());
  std::vector<runtime::NcclDevice> places;
  for (uint32_t worker = 0; worker < workers; ++worker) {
    places.push_back({worker, static_cast<int>(worker), nullptr});
    cudaStreamCreateWithPriority(&places.back().compute, cudaStreamNonBlocking, 0);
  }
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  std::string message;
  {
    runtime::Executor<StreamStage, TestSchedule, runtime::Nccl<Value>> executor(
        schedule,
        [&](const runtime::Copy &copy) {
          return std::make_unique<StreamStage>(StreamStage{places[copy.device].compute, onUpdate});
        },
        {.noProgressLimit = noProgress}, runtime::Nccl<Value>(id, places, options));
    try {
      executor.run(steps);
      executor.run(steps);
    } catch (const runtime::ExecutionError &error) {
      message = error.what();
    }
    for (const runtime::NcclDevice &place : places)
      cudaStreamSynchronize(place.compute);
  }
  for (const runtime::NcclDevice &place : places)
    cudaStreamDestroy(place.compute);
  return message;
}

int failures = 0;
void expect(bool holds, const std::string &what, const std::string &seen = "") {
  std::printf("%s  %s%s%s\n", holds ? "ok    " : "FAILED", what.c_str(), seen.empty() ? "" : ": ",
              seen.c_str());
  failures += !holds;
}
bool has(const std::string &text, const char *part) { return text.find(part) != std::string::npos; }

void runsTrue() {
  const std::pair<const char *, Program> cases[] = {{"gpipe", gpipe(4, 8)},
                                                    {"one_f_one_b", oneFOneB(4, 8)},
                                                    {"zb_h1", zbH1(3, 6)},
                                                    {"interleaved", interleaved(2, 4, 2)},
                                                    {"recomputing", recomputing(3, 5)}};
  for (const auto &[name, program] : cases)
    for (const uint32_t runAhead : {0u, 3u, 64u}) {
      const ExecutorTables tables = lower(program);
      const InMemory memory(name, tables);
      wrong = 0;
      const std::string error = run(memory.schedule, 4, {.runAhead = runAhead});
      expect(error.empty() && wrong == 0,
             std::string(name) + ", " + std::to_string(runAhead) + " waits ahead",
             error + (wrong ? std::to_string(wrong) + " wrong contents" : ""));
    }
}

/// Two devices exchange an activation and a gradient; `flags` of the first and the second row of each.
struct Exchange {
  using Op = runtime::Op;
  runtime::Instruction rows[2][4];
  runtime::Device devices[2];
  runtime::Channel channels[2] = {{0, 1}, {1, 0}};
  runtime::Copy copies[2] = {{0, 0}, {1, 1}};
  double lossFactor[1] = {1};
  runtime::Tables tables;
  Exchange(uint8_t first, uint8_t last)
      : rows{{{Op::SendActivation, first, 0, 0, 0, 0, 0, 0},
              {Op::ReceiveGradient, last, 0, 0, 1, 1, 0, 0},
              {Op::Wait, 0, 0, 0, 0, static_cast<uint32_t>(Op::SendActivation), 0, 0},
              {Op::Wait, 0, 0, 0, 1, static_cast<uint32_t>(Op::ReceiveGradient), 0, 0}},
             {{Op::SendGradient, first, 1, 0, 0, 1, 0, 0},
              {Op::ReceiveActivation, last, 1, 0, 1, 0, 0, 0},
              {Op::Wait, 0, 1, 0, 0, static_cast<uint32_t>(Op::SendGradient), 0, 0},
              {Op::Wait, 0, 1, 0, 1, static_cast<uint32_t>(Op::ReceiveActivation), 0, 0}}},
        devices{{rows[0], 2, 0, 0}, {rows[1], 2, 0, 0}} {
    tables = {.provenance = {"exchange", "", ""},
              .stages = 2,
              .microbatches = 1,
              .devices = devices,
              .channels = channels,
              .copies = copies,
              .lossFactor = lossFactor};
  }
};

void stopsWhatIsStuck() {
  // Each sends before it receives, over one queue: neither ever receives, and a group helps.
  const Exchange apart(0, 0), grouped(runtime::GroupFirst, runtime::GroupLast);
  const std::string stuck = run(apart.tables, 2, {.runAhead = 0}, std::chrono::milliseconds(200));
  expect(has(stuck, "no progress for 200 ms") && has(stuck, "cycle: device 0 -> 1 -> 0"),
         "a cycle under one queue a device is found", stuck);
  const std::string free = run(grouped.tables, 2, {.runAhead = 0}, std::chrono::milliseconds(2000));
  expect(free.empty(), "and none is there in a group", free);
}

void endsWhenPeersAreLost() {
  const ExecutorTables tables = lower(oneFOneB(3, 4));
  const InMemory memory("one_f_one_b", tables);
  const auto atStep = [](uint64_t step, void (*then)(int), int rank) {
    return [=](const Context &c) {
      if (c.device == 0 && c.step == step)
        then(rank);
    };
  };
  std::string error =
      run(memory.schedule, 50, {.runAhead = 4}, std::chrono::milliseconds(0), atStep(2, standIn::report, 1));
  expect(has(error, "device 1") && has(error, "remote process exited"), "an error that NCCL reports", error);
  error = run(memory.schedule, 50, {.runAhead = 1000, .limit = std::chrono::milliseconds(300)},
              std::chrono::milliseconds(0), atStep(2, standIn::lose, 2));
  expect(has(error, "is not done after 300 ms"), "a peer that NCCL misses", error);
  error = run(memory.schedule, 50, {.runAhead = 1000}, std::chrono::milliseconds(0), [](const Context &c) {
    if (c.device == 1 && c.step == 3)
      throw std::runtime_error("out of memory");
  });
  expect(has(error, "device 1, update(1)") && has(error, "out of memory"), "a callback that throws", error);
}

} // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  runsTrue();
  stopsWhatIsStuck();
  endsWhenPeersAreLost();
  expect(standIn::alive() == 0, "every stream, event and communicator is given back",
         std::to_string(standIn::alive()) + " left");
  return failures == 0 ? 0 : 1;
}
