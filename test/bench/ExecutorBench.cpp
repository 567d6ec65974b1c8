// What the executor costs beside callbacks that do nothing, and what two threads of this machine need to hand
// something over without it, in the same run. Each figure is the least of many short windows, a step of the
// schedule or some hundred hops, and the two sides take turns: what else runs on the machine makes most
// windows longer, not all. Compare ratios.
#include "InMemory.h"
#include "Schedules.h"

#include <sluice/Executor.h>
#include <sluice/TraceObserver.h>

#include <condition_variable>
#include <cstdio>
#include <pthread.h>
#include <sched.h>

using namespace sluice;
using namespace sluice::test;
using runtime::Context;
using Clock = std::chrono::steady_clock;

namespace {

/// The cores this process may use; threads of device d go to the d-th of them.
const std::vector<int> &cores() {
  static const std::vector<int> all = [] { // before any thread is pinned
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    std::vector<int> list;
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &set))
        list.push_back(core);
    return list;
  }();
  return all;
}
void pin(unsigned number) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cores()[number % cores().size()], &one);
  pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

/// Windows that end one behind the other; the least of them, in nanoseconds.
struct Windows {
  Clock::time_point last = Clock::now();
  double least = 1e300;
  void end() {
    const Clock::time_point now = Clock::now();
    least = std::min(least, std::chrono::duration<double, std::nano>(now - last).count());
    last = now;
  }
};

struct EmptyStage {
  using Boundary = std::vector<double>;
  using Saved = std::vector<double>;
  void load(const Context &, Boundary &) {}
  void forward(const Context &, const Boundary &, Boundary &, Saved &) {}
  void loss(const Context &, const Boundary &, Boundary &) {}
  void backward(const Context &, const Boundary &, Saved &, Boundary &) {}
  void reduce(const Context &) {}
  void update(const Context &c) { // of device 0, the last row of a step
    thread_local bool isPinned = false;
    if (!isPinned)
      pin(c.device);
    isPinned = true;
    if (c.stage == 0)
      steps->end();
  }
  Windows *steps;
};
using EmptySchedule = runtime::Schedule<runtime::Uses{true, false, false, false, true, true, false},
                                        runtime::ChannelModels{true, true, true, true, true}>;

size_t rowsOf(const runtime::Tables &tables) {
  size_t rows = 0;
  for (const runtime::Device &device : tables.devices)
    rows += device.instructions.size();
  return rows;
}
size_t transfersOf(const runtime::Tables &tables) {
  size_t sends = 0;
  for (const runtime::Device &device : tables.devices)
    for (const runtime::Instruction &row : device.instructions)
      sends += runtime::isSend(row.op);
  return sends;
}

template <class Observer = runtime::NoObserver> class Empty {
public:
  Empty(const Program &program, runtime::Options options, Observer observer = {})
      : tables(lower(program)), memory("empty", tables),
        executor(
            view(memory), [this](const runtime::Copy &) { return std::make_unique<EmptyStage>(&steps); },
            options, {}, std::move(observer)) {
    executor.run(1); // touches everything
  }
  void run(uint64_t count) { executor.run(count); }
  double row() const { return steps.least / static_cast<double>(rowsOf(memory.schedule)); }
  double transfer() const { return steps.least / static_cast<double>(transfersOf(memory.schedule)); }

private:
  static EmptySchedule view(const InMemory &memory) {
    EmptySchedule schedule{};
    static_cast<runtime::Tables &>(schedule) = memory.schedule;
    return schedule;
  }
  const ExecutorTables tables;
  const InMemory memory;
  Windows steps;
  runtime::Executor<EmptyStage, EmptySchedule, runtime::Threads<EmptyStage::Boundary>, Observer> executor;
};

/// Two threads that take turns: `await(self, hop)` until it is the turn of `hop`, `give(other, hop)`.
/// Nanoseconds a hop.
template <class Await, class Give> double hops(unsigned count, unsigned window, Await &&await, Give &&give) {
  Windows windows;
  auto side = [&](unsigned self) {
    pin(self);
    for (unsigned hop = self; hop < count; hop += 2) {
      await(self, hop);
      if (self == 0 && hop % window == 0)
        windows.end();
      give(1 - self, hop + 1);
    }
  };
  {
    std::jthread first(side, 0), second(side, 1);
  }
  return windows.least / window;
}
double spinningHop(unsigned count) {
  struct alignas(64) Turn {
    std::atomic<unsigned> number = 0;
  } turns[2];
  return hops(
      count, 500,
      [&](unsigned self, unsigned hop) {
        while (turns[self].number.load(std::memory_order_acquire) != hop) {
        }
      },
      [&](unsigned other, unsigned hop) { turns[other].number.store(hop, std::memory_order_release); });
}
double parkingHop(unsigned count) {
  std::mutex mutex;
  std::condition_variable changed[2];
  unsigned turn = 0;
  return hops(
      count, 50,
      [&](unsigned self, unsigned hop) {
        std::unique_lock lock(mutex);
        changed[self].wait(lock, [&] { return turn == hop; });
      },
      [&](unsigned other, unsigned hop) {
        std::lock_guard lock(mutex);
        turn = hop;
        changed[other].notify_one();
      });
}

void say(const char *what, double value, const char *unit, double beside, const char *of, double target) {
  if (beside > 0)
    std::printf("%-52s %9.1f %-14s %5.2f of %-26s aim %.1f\n", what, value, unit, value / beside, of, target);
  else
    std::printf("%-52s %9.1f %-14s %38s aim %.0f\n", what, value, unit, "", target);
}

} // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::printf("%zu cores\n", cores().size());
  {
    constexpr uint64_t steps = 400, turns = 20;
    Empty<> plain(oneFOneB(1, 128), {});
    Empty<runtime::TraceObserver> traced(oneFOneB(1, 128), {},
                                         runtime::TraceObserver({.steps = turns * steps + 1}));
    Windows clock;
    for (uint64_t turn = 0; turn < turns; ++turn) {
      plain.run(steps);
      traced.run(steps);
      for (unsigned window = 0; window < 1000; ++window, clock.end())
        for (unsigned reading = 0; reading < 100; ++reading) [[maybe_unused]]
          volatile const auto now = Clock::now().time_since_epoch().count();
    }
    say("a row, one device", plain.row(), "ns", 0, "", 10);
    say("what TraceObserver adds to a row", traced.row() - plain.row(), "ns", clock.least / 100,
        "a reading of the clock", 3);
  }
  if (cores().size() < 2) {
    std::puts("one core: two threads have nothing to say here");
    return 0;
  }
  {
    Empty<> own(oneFOneB(2, 128), {.spins = 1'000'000}), usual(oneFOneB(2, 128), {});
    double hop = 1e300;
    for (unsigned turn = 0; turn < 20; ++turn) {
      hop = std::min(hop, spinningHop(20'000));
      own.run(100);
      usual.run(100);
    }
    say("a transfer, 1F1B, two threads that own their cores", own.transfer(), "ns", hop, "a spinning hop", 3);
    say("the same, waiting as usual", usual.transfer(), "ns", hop, "a spinning hop", 3);
  }
  {
    Empty<> parked(oneFOneB(2, 25), {.spins = 0, .yields = 0});
    double hop = 1e300;
    for (unsigned turn = 0; turn < 20; ++turn) {
      hop = std::min(hop, parkingHop(1'000));
      parked.run(20);
    }
    say("a transfer that parks", parked.transfer(), "ns", hop, "a condition variable's hop", 1.5);
  }
  return 0;
}
