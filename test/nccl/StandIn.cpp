// The functions of CUDA and NCCL that the transport calls, over host memory: a stream is a thread with a
// queue, a message a copy between two of them. As NCCL's, messages of a stream are carried out one after the
// other and those of a group together; a communicator does not block, so that calls are in progress for a
// while; a kernel that waits for its peer ends only when the communicator is aborted. Links in place of
// libcudart and libnccl.
#include "StandIn.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <nccl.h>
#include <set>
#include <thread>
#include <vector>

using Flag = std::shared_ptr<std::atomic<bool>>;

namespace {

std::atomic<int> count = 0;
std::mutex clique; // of all messages, and of who is lost
std::condition_variable moved;
std::set<int> lost, reported;

/// One end of a message: where its bytes are, and whether they have moved.
struct End {
  void *data;
  size_t bytes;
  bool isDone = false;
};
std::map<std::pair<int, int>, std::deque<std::shared_ptr<End>>> sends; // by from, to

} // namespace

struct CUstream_st {
  CUstream_st() : thread([this](const std::stop_token &stop) { run(stop); }) { ++count; }
  ~CUstream_st() {
    thread.request_stop();
    thread.join();
    --count;
  }
  void push(std::function<void()> work) {
    {
      std::lock_guard lock(mutex);
      queue.push_back(std::move(work));
    }
    wake.notify_all();
  }
  bool isIdle() {
    std::lock_guard lock(mutex);
    return queue.empty() && !isBusy;
  }
  void run(const std::stop_token &stop) {
    for (std::unique_lock lock(mutex);;) {
      if (!wake.wait(lock, stop, [&] { return !queue.empty(); }))
        return;
      const std::function<void()> work = std::move(queue.front());
      queue.pop_front();
      isBusy = true;
      lock.unlock();
      work();
      lock.lock();
      isBusy = false;
      wake.notify_all();
    }
  }
  std::mutex mutex;
  std::condition_variable_any wake;
  std::deque<std::function<void()>> queue;
  bool isBusy = false;
  std::jthread thread;
};

struct CUevent_st {
  CUevent_st() { ++count; }
  ~CUevent_st() { --count; }
  std::mutex mutex;
  Flag latest = std::make_shared<std::atomic<bool>>(true); ///< Of the latest record; never recorded: done.
};

struct ncclComm {
  explicit ncclComm(int rank) : rank(rank) { ++count; }
  ~ncclComm() { --count; }
  const int rank;
  Flag aborted = std::make_shared<std::atomic<bool>>(false);
  std::atomic<int> unsettled = 3; ///< Questions until what was called is enqueued.
};

namespace {

struct Part {
  ncclComm *communicator;
  cudaStream_t stream;
  int peer;
  bool sends;
  std::shared_ptr<End> end;
};
thread_local int depth = 0;
thread_local std::vector<Part> grouped;

/// Carries out the messages of one worker in a group: all at once.
void move(const std::vector<Part> &parts, int rank, const Flag &aborted) {
  std::unique_lock lock(clique);
  for (const Part &part : parts)
    if (part.sends)
      sends[{rank, part.peer}].push_back(part.end);
  for (bool isDone = false; !isDone && !aborted->load();) {
    isDone = true;
    for (const Part &part : parts) {
      if (part.end->isDone)
        continue;
      std::deque<std::shared_ptr<End>> &queue = sends[{part.peer, rank}];
      if (!part.sends && !queue.empty() && !lost.contains(rank) && !lost.contains(part.peer)) {
        const std::shared_ptr<End> source = queue.front();
        queue.pop_front();
        if (source->bytes != part.end->bytes)
          std::abort();
        std::memcpy(part.end->data, source->data, source->bytes);
        source->isDone = part.end->isDone = true;
        moved.notify_all();
      }
      isDone &= part.end->isDone;
    }
    if (!isDone)
      moved.wait_for(lock, std::chrono::milliseconds(1));
  }
}

void launch() {
  std::map<ncclComm *, std::vector<Part>> byCommunicator;
  for (const Part &part : grouped)
    byCommunicator[part.communicator].push_back(part);
  grouped.clear();
  for (const auto &[communicator, parts] : byCommunicator) {
    communicator->unsettled = 3;
    parts.front().stream->push([parts = parts, rank = communicator->rank, aborted = communicator->aborted] {
      move(parts, rank, aborted);
    });
  }
}

ncclResult_t add(ncclComm *communicator, cudaStream_t stream, int peer, bool isSend, void *data,
                 size_t bytes) {
  if (communicator->aborted->load())
    return ncclInvalidUsage;
  grouped.push_back({communicator, stream, peer, isSend, std::make_shared<End>(End{data, bytes})});
  if (depth == 0)
    launch();
  return ncclInProgress;
}

} // namespace

void standIn::enqueue(cudaStream_t stream, std::function<void()> work) { stream->push(std::move(work)); }
void standIn::lose(int rank) {
  std::lock_guard lock(clique);
  lost.insert(rank);
}
void standIn::report(int rank) {
  std::lock_guard lock(clique);
  reported.insert(rank);
}
void standIn::reset() {
  std::lock_guard lock(clique);
  lost.clear();
  reported.clear();
  sends.clear();
}
int standIn::alive() { return count; }

extern "C" {

cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDevice(int *device) {
  *device = 0;
  return cudaSuccess;
}
const char *cudaGetErrorString(cudaError_t) { return "an error of the stand-in"; }
cudaError_t cudaMalloc(void **memory, size_t size) {
  *memory = std::malloc(size);
  return cudaSuccess;
}
cudaError_t cudaFree(void *memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned, int) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return stream->isIdle() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  while (!stream->isIdle())
    std::this_thread::yield();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  std::lock_guard lock(event->mutex);
  stream->push([flag = event->latest] { flag->wait(false); });
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  std::lock_guard lock(event->mutex);
  event->latest = std::make_shared<std::atomic<bool>>(false);
  stream->push([flag = event->latest] {
    flag->store(true);
    flag->notify_all();
  });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  std::lock_guard lock(event->mutex);
  return event->latest->load() ? cudaSuccess : cudaErrorNotReady;
}

const char *ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited or there was a network error" : "an error";
}
const char *ncclGetLastError(ncclComm_t) { return ""; }
ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  *id = {};
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t *communicator, int, ncclUniqueId, int rank,
                                    ncclConfig_t *config) {
  if (config->blocking != 0)
    std::abort();
  *communicator = new ncclComm(rank);
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t *result) {
  std::lock_guard lock(clique);
  *result = communicator->unsettled > 0             ? ncclInProgress
            : reported.contains(communicator->rank) ? ncclRemoteError
                                                    : ncclSuccess;
  communicator->unsettled -= communicator->unsettled > 0;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  communicator->aborted->store(true);
  delete communicator;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  delete communicator;
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--depth == 0)
    launch();
  return ncclInProgress;
}
ncclResult_t ncclSend(const void *data, size_t bytes, ncclDataType_t, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return add(communicator, stream, peer, true, const_cast<void *>(data), bytes);
}
ncclResult_t ncclRecv(void *data, size_t bytes, ncclDataType_t, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return add(communicator, stream, peer, false, data, bytes);
}
}
