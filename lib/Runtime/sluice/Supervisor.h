// Who runs and who waits: how workers block, how one failure ends them all, and when nothing moves any
// more. One Supervisor serves one executor and knows all its workers; each worker has one Waiter in it.
// Workers of other processes stand where the link between processes says they do (Peers.h).
//
// Waiting goes in three stages: spinning while there is a core for every device, yielding, and parking on
// a condition variable. A worker that finds all workers waiting and no row finished for as long as the
// limit declares the run stuck; long callbacks are not mistaken for that, since their worker does not wait.
#pragma once

#include "Report.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace sluice::runtime {

class Supervisor;

/// Where one worker waits. A transport's wait calls `until`; whoever makes the condition true calls `wake`.
class Waiter {
public:
  /// Returns when `ready()` holds (true) or the run is being stopped (false). `ready` is called often, by
  /// this thread only; it must read atomics.
  template <class Ready> bool until(Ready &&ready);
  /// As until, for conditions that nobody wakes it for: asks again and again, at first as fast as it can,
  /// after some milliseconds with sleeps of 50 µs between. What `ready` throws goes through.
  template <class Ready> bool poll(Ready &&ready);
  /// To call from any thread after the condition has been made true by a sequentially consistent store.
  void wake() {
    if (!parked.load())
      return;
    {
      std::lock_guard lock(mutex);
    } // until it sleeps; notified outside, or it would wake up to wait for us
    condition.notify_one();
  }

private:
  friend class Supervisor;
  Supervisor *supervisor = nullptr;
  std::atomic<bool> parked = false;
  std::mutex mutex;
  std::condition_variable condition;
};

/// The other processes of a run: one of them decides for all what ended it.
class Processes {
public:
  /// This process has failed; from any thread.
  virtual void propose(const Verdict &verdict) = 0;

protected:
  ~Processes() = default;
};

class Supervisor {
public:
  using Clock = std::chrono::steady_clock;

  Supervisor(const Tables &tables, uint32_t workerCount, std::chrono::milliseconds limit)
      : report(tables, workerCount), count(workerCount), limit(limit),
        workers(std::make_unique<Worker[]>(workerCount)),
        spins(std::thread::hardware_concurrency() > workerCount ? 20 : 0) {
    for (uint32_t worker = 0; worker < count; ++worker)
      workers[worker].waiter.supervisor = this;
  }

  /// How often a wait asks before it yields, and how often it yields before it parks. Before the first run.
  void setTurns(std::optional<unsigned> spinning, std::optional<unsigned> yielding) {
    spins = spinning.value_or(spins);
    yields = yielding.value_or(yields);
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
    workers[worker].waitsFor.store(row, std::memory_order_release);
  }
  void endWait(uint32_t worker) {
    workers[worker].waitsFor.store(Standing::nothing, std::memory_order_release);
  }
  void finish(uint32_t worker) { workers[worker].finished.store(true); }

  /// The workers of this process begin a run.
  void begin() {
    const uint32_t run = ++runs;
    for (uint32_t worker = 0; worker < count; ++worker)
      if (!workers[worker].isRemote) {
        workers[worker].finished.store(false);
        workers[worker].run.store(run);
      }
  }
  uint32_t run() const { return runs.load(); }

  /// A worker cannot go on: the first one to say so is reported, all others stop at their next wait or row.
  void fail(uint32_t worker, std::exception_ptr reason) {
    Verdict own = {worker, workers[worker].index.load(), workers[worker].step.load(), describe(reason)};
    {
      std::lock_guard lock(mutex);
      if (failed)
        return;
      failed = true;
      verdict = own;
      failure = std::move(reason);
    }
    stopAll();
    if (processes)
      processes->propose(own);
  }

  /// After all workers have ended: throws what went wrong, if anything did.
  void rethrow() {
    std::lock_guard lock(mutex);
    if (!failed)
      return;
    thrown = true;
    if (!failure)
      throw report.error(verdict);
    try {
      std::rethrow_exception(failure);
    } catch (...) {
      std::throw_with_nested(report.error(verdict));
    }
  }
  /// A failure has been thrown: there is no way back into the middle of a step.
  bool hasThrown() const { return thrown; }

  // Several processes.

  /// Before the first run: failures are decided by `others`; only the workers that `isLocal(worker)` run
  /// here.
  template <class IsLocal> void join(Processes &others, IsLocal &&isLocal) {
    processes = &others;
    for (uint32_t worker = 0; worker < count; ++worker)
      workers[worker].isRemote = !isLocal(worker);
  }
  /// Where a worker of another process stands.
  void place(uint32_t worker, const Standing &standing) {
    Worker &place = workers[worker];
    place.step.store(standing.step);
    place.index.store(standing.index);
    place.peer.store(standing.peer);
    place.waitsFor.store(standing.waitsFor);
    place.finished.store(false);
    place.run.store(standing.run);
    place.finished.store(standing.finished);
  }
  /// Not finished while the run is being stopped, so that nobody takes an ended worker for a successful one.
  Standing standing(uint32_t worker) const {
    const Worker &place = workers[worker];
    Standing standing;
    standing.run = place.run.load(); // before `finished`, which belongs to it or is false
    standing.finished = place.finished.load() && !stop.load();
    standing.waitsFor = place.waitsFor.load();
    standing.peer = place.peer.load();
    standing.index = place.index.load();
    standing.step = place.step.load();
    return standing;
  }
  std::vector<Standing> standings() const {
    std::vector<Standing> all;
    for (uint32_t worker = 0; worker < count; ++worker)
      all.push_back(standing(worker));
    return all;
  }
  const Report &words() const { return report; }
  std::chrono::milliseconds progressLimit() const { return limit; }

  /// What ended the run of all processes, in place of what this one thought.
  void decide(const Verdict &decision) {
    {
      std::lock_guard lock(mutex);
      if (decided.load())
        return;
      if (failed && !decision.isAt(verdict))
        failure = nullptr;
      failed = true;
      verdict = decision;
      decided.store(true);
    }
    stopAll();
  }
  bool isDecided() const { return decided.load(); }

  /// How long a parked worker sleeps before it looks whether anybody still moves.
  std::chrono::milliseconds patience() const {
    const std::chrono::milliseconds longest(100), quarter(limit / 4);
    return limit.count() == 0 ? longest : std::clamp(quarter, std::chrono::milliseconds(1), longest);
  }

  /// To call every `patience`, while it is known where all workers stand. True: they are stuck, as `found`
  /// says.
  bool findStuck(Verdict &found) {
    std::lock_guard lock(mutex);
    uint32_t newest = 0;
    for (uint32_t worker = 0; worker < count; ++worker)
      newest = std::max(newest, workers[worker].run.load());
    bool allWait = true, allFinished = true;
    uint64_t position = 0;
    for (uint32_t worker = 0; worker < count; ++worker) {
      const Standing at = standing(worker);
      // One that has finished an earlier run is between two: busy.
      allWait &= (at.finished || at.waits()) && at.run == newest;
      allFinished &= at.finished; // between two runs nobody is stuck
      position += at.step * report.rowsOf(worker).size() + at.index;
    }
    const Clock::time_point now = Clock::now();
    if (!allWait || allFinished || position != lastPosition) {
      lastPosition = allWait ? position : unknownPosition;
      still = {};
    } else {
      // No more than two sleeps are counted at once, so that a process that was suspended is not called
      // stuck.
      still += std::min<Clock::duration>(now - lastCheck, 2 * patience());
    }
    lastCheck = now;
    if (limit.count() == 0 || still < limit || failed)
      return false;
    found = report.stuck(standings(), limit);
    return true;
  }

private:
  friend class Waiter;
  static constexpr uint64_t unknownPosition = ~uint64_t{0};

  struct alignas(64) Worker {
    std::atomic<uint64_t> step = 0;
    std::atomic<uint32_t> index = 0, waitsFor = Standing::nothing, peer = 0, run = 0;
    std::atomic<bool> finished = false;
    bool isRemote = false;
    /// On lines of its own: whoever asks whether it is parked must not take away those that each row writes.
    alignas(64) Waiter waiter;
  };

  static std::string describe(const std::exception_ptr &reason) {
    try {
      std::rethrow_exception(reason);
    } catch (const std::exception &exception) {
      return exception.what();
    } catch (...) {
      return "an exception that is no std::exception";
    }
  }

  void stopAll() {
    stop.store(true);
    for (uint32_t worker = 0; worker < count; ++worker) {
      std::lock_guard lock(workers[worker].waiter.mutex);
      workers[worker].waiter.condition.notify_one();
    }
  }

  // Called by waiting workers now and then. With several processes the link between them looks instead.
  void checkProgress() {
    Verdict found;
    if (!processes && findStuck(found))
      decide(found);
  }

  const Report report;
  const uint32_t count; // of workers
  const std::chrono::milliseconds limit;
  std::unique_ptr<Worker[]> workers;
  unsigned spins, yields = 200;
  Processes *processes = nullptr; // null: all workers are here
  std::atomic<uint32_t> runs = 0; // begun here
  bool thrown = false;
  std::atomic<bool> stop = false, decided = false;

  std::mutex mutex; // of what follows
  bool failed = false;
  Verdict verdict;
  std::exception_ptr failure; // null: not thrown here
  uint64_t lastPosition = unknownPosition;
  Clock::time_point lastCheck;
  Clock::duration still{}; // how long all have waited where they are
};

template <class Ready> bool Waiter::until(Ready &&ready) {
  for (unsigned turn = 0; turn < supervisor->spins; ++turn)
    if (ready())
      return true;
  for (unsigned turn = 0; turn < supervisor->yields; ++turn) {
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
    lock.lock();
  }
  parked.store(false);
  return isReady;
}

template <class Ready> bool Waiter::poll(Ready &&ready) {
  for (unsigned turn = 0; turn < supervisor->spins + supervisor->yields; ++turn) {
    if (ready())
      return true;
    if (turn >= supervisor->spins)
      std::this_thread::yield();
  }
  const Supervisor::Clock::time_point begin = Supervisor::Clock::now();
  Supervisor::Clock::time_point nextCheck = begin + supervisor->patience();
  while (!ready()) {
    if (supervisor->stopping())
      return false;
    const Supervisor::Clock::time_point now = Supervisor::Clock::now();
    if (now - begin < std::chrono::milliseconds(2))
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (now >= nextCheck) {
      supervisor->checkProgress();
      nextCheck = now + supervisor->patience();
    }
  }
  return true;
}

} // namespace sluice::runtime
