// Who runs, who waits and for whom: how workers block, how one failure ends them all, and what is said
// when nothing moves any more. One Supervisor serves one executor; each worker has one Waiter in it. A worker
// is a device of a replica: worker = replica × devices + device.
//
// Waiting goes in three stages: spinning while there is a core for every device, yielding, and parking on
// a condition variable. A worker that finds all workers waiting and no row finished for as long as the
// limit declares the run stuck; long callbacks are not mistaken for that, since their worker does not wait.
#pragma once

#include "Schedule.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace sluice::runtime {

/// Why a run ended early. what() is the whole story; the fields name the op for programs. Where a callback
/// threw, its exception is nested (std::rethrow_if_nested).
class ExecutionError : public std::runtime_error {
public:
  ExecutionError(const std::string &message, std::string schedule, uint32_t replica, uint32_t device,
                 std::string op, uint32_t index, uint64_t step)
      : std::runtime_error(message), schedule(std::move(schedule)), op(std::move(op)), replica(replica),
        device(device), index(index), step(step) {}
  std::string schedule, op;
  uint32_t replica, device, index; ///< index: row in the device's table.
  uint64_t step;
};

/// `forward(1, 3)`: stage, microbatch. Of a wait: `wait recv_gradient(1, 3)`.
inline std::string describe(const Instruction &row) {
  std::string text(row.op == Op::Wait ? "wait " : "");
  text += name(row.op == Op::Wait ? static_cast<Op>(row.b) : row.op);
  text += '(' + std::to_string(row.stage);
  if (row.microbatch != noMicrobatch)
    text += ", " + std::to_string(row.microbatch);
  return text + ')';
}

class Supervisor;

/// Where one worker waits. A transport's wait calls `until`; whoever makes the condition true calls `wake`.
class Waiter {
public:
  /// Returns when `ready()` holds (true) or the run is being stopped (false). `ready` is called often, by
  /// this thread only; it must read atomics.
  template <class Ready> bool until(Ready &&ready);
  /// To call from any thread after the condition has been made true by a sequentially consistent store.
  void wake() {
    if (!parked.load())
      return;
    std::lock_guard lock(mutex);
    condition.notify_one();
  }

private:
  friend class Supervisor;
  Supervisor *supervisor = nullptr;
  std::atomic<bool> parked = false;
  std::mutex mutex;
  std::condition_variable condition;
};

class Supervisor {
public:
  using Clock = std::chrono::steady_clock;

  Supervisor(const Tables &tables, uint32_t workerCount, std::chrono::milliseconds limit)
      : tables(tables), count(workerCount), limit(limit), workers(std::make_unique<Worker[]>(workerCount)),
        spins(std::thread::hardware_concurrency() > workerCount ? 20 : 0) {
    for (uint32_t worker = 0; worker < count; ++worker)
      workers[worker].waiter.supervisor = this;
  }

  Waiter &waiter(uint32_t worker) { return workers[worker].waiter; }
  bool stopping() const { return stop.load(); }

  /// `worker` begins row `index`.
  void reach(uint32_t worker, uint64_t step, uint32_t index) {
    workers[worker].step.store(step, std::memory_order_relaxed);
    workers[worker].index.store(index, std::memory_order_relaxed);
  }
  /// Around a wait: for which row (a started message or a joint op) and for which worker.
  void beginWait(uint32_t worker, uint32_t row, uint32_t peer) {
    workers[worker].peer.store(peer, std::memory_order_relaxed);
    workers[worker].waitsFor.store(row);
  }
  void endWait(uint32_t worker) { workers[worker].waitsFor.store(nothing); }
  void finish(uint32_t worker) { workers[worker].finished.store(true); }
  void begin() {
    for (uint32_t worker = 0; worker < count; ++worker)
      workers[worker].finished.store(false);
  }

  /// A worker cannot go on: the first one to say so is reported, all others stop at their next wait or row.
  void fail(uint32_t worker, std::exception_ptr reason) {
    {
      std::lock_guard lock(mutex);
      if (!failed) {
        failed = true;
        failedWorker = worker;
        failure = std::move(reason);
      }
    }
    stopAll();
  }

  /// After all workers have ended: throws what went wrong, if anything did.
  void rethrow() {
    if (!failed)
      return;
    if (!failure)
      throw error(failedWorker, report);
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception &reason) {
      std::throw_with_nested(error(failedWorker, reason.what()));
    } catch (...) {
      std::throw_with_nested(error(failedWorker, "an exception that is no std::exception"));
    }
  }

private:
  friend class Waiter;
  static constexpr uint32_t nothing = ~0u;
  static constexpr uint64_t unknownPosition = ~uint64_t{0};
  static constexpr unsigned yields = 200;

  struct alignas(64) Worker {
    std::atomic<uint64_t> step = 0;
    std::atomic<uint32_t> index = 0, waitsFor = nothing, peer = 0;
    std::atomic<bool> finished = false;
    Waiter waiter;
  };

  void stopAll() {
    stop.store(true);
    for (uint32_t worker = 0; worker < count; ++worker) {
      std::lock_guard lock(workers[worker].waiter.mutex);
      workers[worker].waiter.condition.notify_one();
    }
  }

  /// How long a parked worker sleeps before it looks whether anybody still moves.
  std::chrono::milliseconds patience() const {
    const std::chrono::milliseconds longest(100), quarter(limit / 4);
    return limit.count() == 0 ? longest : std::clamp(quarter, std::chrono::milliseconds(1), longest);
  }

  // Called by parked workers now and then.
  void checkProgress() {
    std::lock_guard lock(mutex);
    bool allWait = true;
    uint64_t position = 0;
    for (uint32_t number = 0; number < count; ++number) {
      const Worker &worker = workers[number];
      allWait &= worker.finished.load() || worker.waitsFor.load() != nothing;
      position += worker.step.load() * rowsOf(number).size() + worker.index.load();
    }
    const Clock::time_point now = Clock::now();
    if (!allWait || position != lastPosition) {
      lastPosition = allWait ? position : unknownPosition;
      still = {};
    } else {
      // No more than one sleep is counted at once, so that a process that was suspended is not called stuck.
      still += std::min<Clock::duration>(now - lastCheck, patience());
    }
    lastCheck = now;
    if (limit.count() > 0 && still >= limit && !failed) {
      failed = true;
      report = describeStuck();
    }
  }
  bool isStuck() {
    std::lock_guard lock(mutex);
    return failed;
  }

  uint32_t deviceOf(uint32_t worker) const { return worker % static_cast<uint32_t>(tables.devices.size()); }
  uint32_t replicaOf(uint32_t worker) const { return worker / static_cast<uint32_t>(tables.devices.size()); }
  std::span<const Instruction> rowsOf(uint32_t worker) const {
    return tables.devices[deviceOf(worker)].instructions;
  }
  /// `device 2`, and of several replicas which.
  std::string nameOf(uint32_t worker) const {
    std::string text = "device " + std::to_string(deviceOf(worker));
    return count == tables.devices.size() ? text
                                          : "replica " + std::to_string(replicaOf(worker)) + ", " + text;
  }

  std::string describeStuck() {
    std::string text = "no progress for " + std::to_string(limit.count()) + " ms";
    uint32_t start = nothing;
    for (uint32_t number = 0; number < count; ++number) {
      const Worker &worker = workers[number];
      text += "\n  " + nameOf(number);
      if (worker.finished.load()) {
        text += " has finished";
        continue;
      }
      if (start == nothing)
        start = number;
      const std::span<const Instruction> rows = rowsOf(number);
      text += " at " + describe(rows[worker.index.load()]) + ", row " + std::to_string(worker.index.load()) +
              ", step " + std::to_string(worker.step.load()) + ", waits for " +
              describe(rows[worker.waitsFor.load()]) + " with " + nameOf(worker.peer.load());
    }
    failedWorker = start;
    return text + describeCycle(start);
  }

  std::string describeCycle(uint32_t worker) const {
    std::vector<bool> seen(count);
    while (!workers[worker].finished.load() && !seen[worker]) {
      seen[worker] = true;
      worker = workers[worker].peer.load();
    }
    if (workers[worker].finished.load())
      return "\n  no cycle: " + nameOf(worker) + " has finished, so what is awaited never comes";
    std::string text = "\n  cycle: " + nameOf(worker);
    uint32_t next = worker;
    do {
      next = workers[next].peer.load();
      text += " -> " + (count == tables.devices.size() ? std::to_string(next) : nameOf(next));
    } while (next != worker);
    return text;
  }

  ExecutionError error(uint32_t worker, const std::string &reason) const {
    const uint32_t index = workers[worker].index.load();
    const uint64_t step = workers[worker].step.load();
    std::string schedule(tables.provenance.schedule);
    std::string op = describe(rowsOf(worker)[index]);
    std::string message = "schedule " + schedule + ", " + nameOf(worker) + ", " + op + ", row " +
                          std::to_string(index) + ", step " + std::to_string(step) + ": " + reason;
    return {message, std::move(schedule), replicaOf(worker), deviceOf(worker), std::move(op), index, step};
  }

  const Tables &tables;
  const uint32_t count; // of workers
  const std::chrono::milliseconds limit;
  std::unique_ptr<Worker[]> workers;
  const unsigned spins;
  std::atomic<bool> stop = false;

  std::mutex mutex; // of what follows
  bool failed = false;
  uint32_t failedWorker = 0;
  std::exception_ptr failure; // null: stuck
  std::string report;
  uint64_t lastPosition = unknownPosition;
  Clock::time_point lastCheck;
  Clock::duration still{}; // how long all have waited where they are
};

template <class Ready> bool Waiter::until(Ready &&ready) {
  for (unsigned turn = 0; turn < supervisor->spins; ++turn)
    if (ready())
      return true;
  for (unsigned turn = 0; turn < Supervisor::yields; ++turn) {
    if (ready())
      return true;
    std::this_thread::yield();
  }
  std::unique_lock lock(mutex);
  // `parked` is stored before `ready` is asked again, and the waker stores before it reads `parked`: one of
  // the two sees the other.
  parked.store(true);
  bool isReady = false;
  while (!(isReady = ready()) && !supervisor->stopping()) {
    if (condition.wait_for(lock, supervisor->patience()) != std::cv_status::timeout)
      continue;
    lock.unlock(); // stopping takes the locks of all waiters
    supervisor->checkProgress();
    if (supervisor->isStuck())
      supervisor->stopAll();
    lock.lock();
  }
  parked.store(false);
  return isReady;
}

} // namespace sluice::runtime
