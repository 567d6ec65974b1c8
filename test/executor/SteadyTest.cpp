// Step after step without growth: once warm, steps neither allocate nor leave more memory in use.
#include "IdleStage.h"

#include "bidirectional_p4_m8_s1.h"
#include "one_f_one_b_p4_m8.h"
#include "zb_h1_p4_m8.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>
#include <unistd.h>

using namespace sluice::test;
using sluice::runtime::ChannelModel;
using sluice::runtime::Context;
using sluice::runtime::Copy;
using sluice::runtime::Threads;

static std::atomic<uint64_t> allocations = 0;
[[gnu::noinline]] void *operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void *memory = std::malloc(size == 0 ? 1 : size))
    return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void *memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }

static uint64_t residentBytes() {
  uint64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

template <class Executor> static uint64_t allocationsOf(Executor &executor, uint64_t steps) {
  const uint64_t before = allocations.load();
  executor.run(steps);
  return allocations.load() - before;
}

/// A run allocates to start its threads, whatever its length.
template <class Transport, class ScheduleType> static bool isSteady(const ScheduleType &schedule) {
  sluice::runtime::Executor<IdleStage<int>, ScheduleType, Transport> executor(
      schedule, [](const Copy &) { return std::make_unique<IdleStage<int>>(); });
  executor.run(100);
  const uint64_t ofShort = allocationsOf(executor, 10);
  const uint64_t before = residentBytes();
  const uint64_t ofLong = allocationsOf(executor, 10'000);
  const uint64_t after = residentBytes();
  const std::string name(schedule.provenance.schedule);
  std::printf("%s: %llu allocations in 10 steps, %llu in 10,000; %lld KiB more\n", name.c_str(),
              static_cast<unsigned long long>(ofShort), static_cast<unsigned long long>(ofLong),
              (static_cast<long long>(after) - static_cast<long long>(before)) / 1024);
  return ofLong == ofShort && after < before + (1u << 20);
}

int main() {
  using namespace generated;
  const bool passed = isSteady<Threads<int>>(one_f_one_b_p4_m8::schedule) &
                      isSteady<Threads<int>>(zb_h1_p4_m8::schedule) &
                      isSteady<Threads<int>>(bidirectional_p4_m8_s1::schedule) &
                      isSteady<Threads<int, ChannelModel::eager>>(one_f_one_b_p4_m8::schedule);
  std::printf(passed ? "PASS\n" : "FAIL\n");
  return passed ? 0 : 1;
}
