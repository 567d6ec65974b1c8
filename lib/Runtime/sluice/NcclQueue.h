// What NCCL carries out for one worker: a communicator, a stream of its own beside the worker's compute
// stream, and the messages that are enqueued in it.
//
// The host enqueues and goes on. A message begins when the compute stream has done what was enqueued in it
// before the start, and the compute stream goes on behind a wait when the message is done; the host itself
// waits only for messages that lie `runAhead` waits back. The communicator does not block (ncclConfig_t,
// "Nonblocking communication" of the NCCL user guide), so that each call can be given up; events are recorded
// when a call or a group has settled. One thread, the worker's, starts and waits; a watchdog looks on.
#pragma once

#include "Context.h"
#include "Supervisor.h"

#include <cuda_runtime_api.h>
#include <deque>
#include <nccl.h>
#include <stdexcept>
#include <string>
#include <vector>

namespace sluice::runtime {

struct NcclOptions {
  /// Waits that the host goes on past before their messages are done. 0: the host waits for each, which costs
  /// speed, and makes reports of stuck runs name the very message.
  uint32_t runAhead = 64;
  /// A message that a device waits for and that is not done for this long ends the run; 0: never. Counts the
  /// time that kernels before it take at both ends.
  std::chrono::milliseconds limit{600'000};
  /// For all workers to come together when the executor is made.
  std::chrono::milliseconds meetingLimit{120'000};
};

/// A worker of this process: the device it drives, and the stream its callbacks enqueue their work in.
struct NcclDevice {
  uint32_t worker;
  int device;
  cudaStream_t compute;
};

inline void require(cudaError_t result, const char *call) {
  if (result != cudaSuccess)
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(result));
}

class NcclQueue {
public:
  using Clock = std::chrono::steady_clock;
  static constexpr uint32_t none = ~0u;

  NcclQueue(const NcclDevice &place, const NcclOptions &options) : place(place), options(options) {
    use();
    int least = 0, greatest = 0;
    require(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    require(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest),
            "cudaStreamCreateWithPriority");
    require(cudaEventCreateWithFlags(&computed, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }
  NcclQueue(const NcclQueue &) = delete;
  NcclQueue &operator=(const NcclQueue &) = delete;
  ~NcclQueue() {
    cudaSetDevice(place.device);
    if (communicator) {
      // Gone already where a failure has aborted it.
      if (ncclCommFinalize(communicator) == ncclInProgress)
        for (const Clock::time_point end = Clock::now() + std::chrono::seconds(10);
             state() == ncclInProgress && Clock::now() < end;)
          std::this_thread::yield();
      ncclCommDestroy(communicator);
    }
    for (const Entry &entry : entries)
      cudaEventDestroy(entry.event);
    cudaEventDestroy(computed);
    cudaStreamDestroy(stream);
  }

  uint32_t worker() const { return place.worker; }
  /// The device of this worker becomes that of the calling thread.
  void use() const { require(cudaSetDevice(place.device), "cudaSetDevice"); }

  /// Inside ncclGroupStart and ncclGroupEnd, when all workers do so; then ask isSettled.
  void meet(const ncclUniqueId &id, uint32_t workers) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    requireBegun(ncclCommInitRankConfig(&communicator, static_cast<int>(workers), id,
                                        static_cast<int>(place.worker), &config),
                 "ncclCommInitRankConfig");
  }
  /// Likewise: a byte to and from each peer, so that no later call has to connect, which would hold up the
  /// host until the peer makes its own. `scratch`: of two bytes per worker, on this device.
  void greet(const std::vector<bool> &sendsTo, const std::vector<bool> &receivesFrom, char *scratch) {
    use();
    for (size_t peer = 0; peer < sendsTo.size(); ++peer) {
      if (sendsTo[peer])
        requireBegun(ncclSend(scratch + peer, 1, ncclInt8, static_cast<int>(peer), communicator, stream),
                     "ncclSend");
      if (receivesFrom[peer])
        requireBegun(ncclRecv(scratch + sendsTo.size() + peer, 1, ncclInt8, static_cast<int>(peer),
                              communicator, stream),
                     "ncclRecv");
    }
  }
  /// Whether what was called has been enqueued. Throws where it failed.
  bool isSettled() {
    std::lock_guard lock(mutex);
    if (isAborted)
      return true;
    const ncclResult_t now = state();
    if (now != ncclInProgress)
      requireBegun(now, "communication");
    return now != ncclInProgress;
  }
  bool isIdle() const { return cudaStreamQuery(stream) != cudaErrorNotReady; }

  // For the worker's thread.

  void beginGroup() {
    std::lock_guard lock(mutex);
    isGrouped = true;
    requireBegun(ncclGroupStart(), "ncclGroupStart");
  }
  void endGroup(const Supervisor &supervisor) {
    {
      std::lock_guard lock(mutex);
      isGrouped = false;
      requireBegun(ncclGroupEnd(), "ncclGroupEnd");
    }
    if (settle(supervisor))
      for (const uint32_t number : group)
        record(number);
    group.clear();
  }
  /// For the worker's thread, as those above.
  bool hasGroup() const { return isGrouped; }

  /// The number to wait for. The memory belongs to the message until its wait.
  uint32_t start(const Message &message, void *data, size_t count, ncclDataType_t type,
                 const Supervisor &supervisor) {
    use();
    const uint32_t number = newEntry(message);
    {
      std::lock_guard lock(mutex);
      if (isAborted)
        return number;
      require(cudaEventRecord(computed, place.compute), "cudaEventRecord");
      require(cudaStreamWaitEvent(stream, computed, 0), "cudaStreamWaitEvent");
      const bool sends = message.from == place.worker;
      requireBegun(sends ? ncclSend(data, count, type, static_cast<int>(message.to), communicator, stream)
                         : ncclRecv(data, count, type, static_cast<int>(message.from), communicator, stream),
                   sends ? "ncclSend" : "ncclRecv");
    }
    if (isGrouped)
      group.push_back(number);
    else if (settle(supervisor))
      record(number);
    return number;
  }

  /// What is enqueued in the compute stream from now on runs when the message is done. False: the run is
  /// being stopped.
  bool wait(uint32_t number, Waiter &waiter) {
    use();
    {
      std::lock_guard lock(mutex);
      if (isAborted)
        return false;
      require(cudaStreamWaitEvent(place.compute, entries[number].event, 0), "cudaStreamWaitEvent");
      entries[number].since = Clock::now();
      flying.push_back(number);
      while (!flying.empty() && isDone(flying.front()))
        release();
    }
    return flying.size() <= options.runAhead || waiter.poll([&] {
      std::lock_guard lock(mutex);
      while (!flying.empty() && isDone(flying.front()))
        release();
      return flying.size() <= options.runAhead;
    });
  }

  /// All that was waited for is done. For the thread of the executor, when the worker's has ended.
  bool isDrained() {
    std::lock_guard lock(mutex);
    while (!flying.empty() && isDone(flying.front()))
      release();
    return flying.empty() || isAborted;
  }

  // For the watchdog.

  /// What is wrong with this worker's communication; empty: nothing.
  std::string problem() {
    std::lock_guard lock(mutex);
    if (isAborted || !communicator)
      return "";
    const ncclResult_t now = state();
    if (now != ncclSuccess && now != ncclInProgress)
      return textOf(now, "communication");
    if (options.limit.count() == 0 || flying.empty())
      return "";
    const Entry &oldest = entries[flying.front()];
    if (Clock::now() - oldest.since < options.limit || isDone(flying.front()))
      return "";
    return nameOf(oldest.message) + " is not done after " + std::to_string(options.limit.count()) + " ms";
  }
  /// Ends all that is under way, kernels included: streams that wait for it go on, over undefined content.
  void abort() {
    std::lock_guard lock(mutex);
    if (isAborted || isGrouped || !communicator)
      return; // a group ends soon, and the watchdog comes again
    isAborted = true;
    ncclCommAbort(communicator);
    communicator = nullptr;
  }

private:
  struct Entry {
    cudaEvent_t event = nullptr; ///< Recorded behind the message.
    Message message{};
    Clock::time_point since; ///< Waited for.
  };

  ncclResult_t state() const {
    ncclResult_t now = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(communicator, &now);
    return asked == ncclSuccess ? now : asked;
  }
  std::string textOf(ncclResult_t result, const char *what) const {
    const char *detail = communicator ? ncclGetLastError(communicator) : nullptr;
    return std::string("NCCL, ") + what + ": " + ncclGetErrorString(result) +
           (detail && *detail ? std::string(", ") + detail : "");
  }
  void requireBegun(ncclResult_t result, const char *call) const {
    if (result != ncclSuccess && result != ncclInProgress)
      throw std::runtime_error(textOf(result, call));
  }
  /// False: given up, since the run is being stopped.
  bool settle(const Supervisor &supervisor) {
    while (!isSettled()) {
      if (supervisor.stopping())
        return false;
      std::this_thread::yield();
    }
    return true;
  }
  void record(uint32_t number) {
    std::lock_guard lock(mutex);
    if (!isAborted)
      require(cudaEventRecord(entries[number].event, stream), "cudaEventRecord");
  }
  bool isDone(uint32_t number) const {
    const cudaError_t result = cudaEventQuery(entries[number].event);
    if (result != cudaErrorNotReady)
      require(result, "cudaEventQuery");
    return result == cudaSuccess;
  }
  void release() {
    free.push_back(flying.front());
    flying.pop_front();
  }
  uint32_t newEntry(const Message &message) {
    std::lock_guard lock(mutex);
    if (free.empty()) {
      free.push_back(static_cast<uint32_t>(entries.size()));
      entries.emplace_back();
      require(cudaEventCreateWithFlags(&entries.back().event, cudaEventDisableTiming),
              "cudaEventCreateWithFlags");
    }
    const uint32_t number = free.back();
    free.pop_back();
    entries[number].message = message;
    return number;
  }
  std::string nameOf(const Message &message) const {
    const bool sends = message.from == place.worker;
    return std::string(name(message.op)) + "(" + std::to_string(message.stage) +
           (message.microbatch == noMicrobatch ? "" : ", " + std::to_string(message.microbatch)) +
           ") of step " + std::to_string(message.step) + (sends ? " to worker " : " from worker ") +
           std::to_string(sends ? message.to : message.from);
  }

  const NcclDevice place;
  const NcclOptions options;
  cudaStream_t stream = nullptr;
  cudaEvent_t computed = nullptr; // what the compute stream had been given at the latest start
  std::vector<uint32_t> group;    // started in the open one

  std::mutex mutex; // of what follows
  bool isGrouped = false;
  ncclComm_t communicator = nullptr;
  bool isAborted = false;
  std::vector<Entry> entries;
  std::vector<uint32_t> free;
  std::deque<uint32_t> flying; // waited for and not known to be done
};

} // namespace sluice::runtime
