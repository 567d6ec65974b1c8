// The transport between GPUs: NCCL on CUDA streams, one communicator and one stream a worker, in one process
// or several. Messages of a device are carried out one after the other, those of a group together: the
// channel model rendezvousDevice, `nccl` in a schedule file.
//
//   Executor<MyStage, Schedule, Nccl<Tensor>> executor(schedule, makeStage, {},
//       Nccl<Tensor>(id, {{.worker = 0, .device = 0, .compute = stream0}, ...}));
//
// Callbacks run on the host and enqueue their work in the compute stream of their device, on which their
// thread already is; nobody waits for a kernel. `run` returns when all messages are done; what is in the
// compute streams then may not be. Joint ops need a stage with `reduce` of its own (ncclAllReduce on another
// communicator), unless the executor groups their messages.
//
// Failure: a watchdog ends the run when NCCL reports an error, a message takes longer than the limit, or
// another worker has failed, and aborts the communicators, so that kernels that wait for a lost peer end.
#pragma once

#include "NcclQueue.h"

#include <memory>
#include <thread>
#include <utility>

namespace sluice::runtime {

/// Where a boundary's content lies on the device. To be specialised:
///   static void *data(Boundary &);  static size_t count(const Boundary &);  static ncclDataType_t type(...)
/// Both ends of a message must agree on count and type, so a receiving stage sizes its boundary in `shape`.
template <class Boundary> struct NcclBuffer;

template <class Boundary, class Buffer = NcclBuffer<Boundary>> class Nccl {
public:
  static constexpr ChannelModel channelModel = ChannelModel::rendezvousDevice;
  struct Request {
    NcclQueue *queue = nullptr;
    uint32_t number = NcclQueue::none;
  };

  /// `id`: of ncclGetUniqueId, the same in all processes. `here`: the workers of this process, each on a GPU
  /// of its own; worker = replica × devices + device, and so is its rank.
  Nccl(const ncclUniqueId &id, std::vector<NcclDevice> here, NcclOptions options = {})
      : id(id), here(std::move(here)), options(options) {}
  Nccl(Nccl &&) = default;
  Nccl &operator=(Nccl &&) = delete;
  bool isLocal(uint32_t worker) const {
    for (const NcclDevice &place : here)
      if (place.worker == worker)
        return true;
    return false;
  }

  /// Called by all processes. Throws std::runtime_error where they do not come together.
  void open(const Network &network, Supervisor &of) {
    supervisor = &of;
    queues.resize(network.workers);
    int before = 0;
    require(cudaGetDevice(&before), "cudaGetDevice");
    for (const NcclDevice &place : here) {
      if (place.worker >= network.workers)
        throw std::runtime_error("worker " + std::to_string(place.worker) +
                                 " is given a GPU, and there are " + std::to_string(network.workers) +
                                 " workers (devices × replicas)");
      queues[place.worker] = std::make_unique<NcclQueue>(place, options);
    }
    together("come together", [&](NcclQueue &queue) {
      queue.use();
      queue.meet(id, network.workers);
    });
    greet(network);
    require(cudaSetDevice(before), "cudaSetDevice");
    watchdog = std::jthread([this](const std::stop_token &stop) {
      while (!stop.stop_requested()) {
        look();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      look();
    });
  }

  Request startSend(const Message &message, Boundary &boundary) {
    return start(*queues[message.from], message, boundary);
  }
  Request startReceive(const Message &message, Boundary &boundary) {
    return start(*queues[message.to], message, boundary);
  }
  bool wait(const Request &request, Waiter &waiter) { return request.queue->wait(request.number, waiter); }

  void beginGroup(uint32_t worker) { queues[worker]->beginGroup(); }
  void endGroup(uint32_t worker) { queues[worker]->endGroup(*supervisor); }

  /// The workers have ended; returns when their messages have too.
  void finishRun() {
    for (const std::unique_ptr<NcclQueue> &queue : queues)
      while (queue && !supervisor->stopping() && !queue->isDrained())
        std::this_thread::sleep_for(std::chrono::microseconds(20));
  }

private:
  using Queues = std::vector<std::unique_ptr<NcclQueue>>; // by worker; null: in another process

  Request start(NcclQueue &queue, const Message &message, Boundary &boundary) {
    if (!isMessage(message.op) && !queue.hasGroup())
      throw std::runtime_error(
          std::string(name(message.op)) +
          " of several devices or replicas: messages of a joint op, one after the other, "
          "block each other under NCCL; give the stage a callback " +
          std::string(name(message.op)) +
          "(c) of its own, and `static constexpr bool reducesByItself = true`");
    return {&queue, queue.start(message, Buffer::data(boundary), Buffer::count(boundary),
                                Buffer::type(boundary), *supervisor)};
  }

  /// Calls of all workers of this process, in one group; then until they are enqueued and done.
  template <class Call> void together(const char *what, Call &&call) {
    ncclGroupStart();
    for (const std::unique_ptr<NcclQueue> &queue : queues)
      if (queue)
        call(*queue);
    const ncclResult_t result = ncclGroupEnd();
    if (result != ncclSuccess && result != ncclInProgress)
      throw std::runtime_error(std::string("NCCL, ") + what + ": " + ncclGetErrorString(result));
    const NcclQueue::Clock::time_point end = NcclQueue::Clock::now() + options.meetingLimit;
    for (const std::unique_ptr<NcclQueue> &queue : queues)
      while (queue && !(queue->isSettled() && queue->isIdle())) {
        if (NcclQueue::Clock::now() > end) {
          for (const std::unique_ptr<NcclQueue> &other : queues)
            if (other)
              other->abort();
          throw std::runtime_error(std::string("not all workers ") + what + " within " +
                                   std::to_string(options.meetingLimit.count()) + " ms: worker " +
                                   std::to_string(queue->worker()) + " still waits");
        }
        std::this_thread::yield();
      }
  }

  void greet(const Network &network) {
    std::vector<std::pair<NcclQueue *, void *>> scratch;
    for (const std::unique_ptr<NcclQueue> &queue : queues)
      if (queue) {
        queue->use();
        scratch.push_back({queue.get(), nullptr});
        require(cudaMalloc(&scratch.back().second, 2 * network.workers), "cudaMalloc");
      }
    size_t next = 0;
    together("connect", [&](NcclQueue &queue) {
      std::vector<bool> sendsTo(network.workers), receivesFrom(network.workers);
      for (const Line &line : network.lines) {
        if (line.from == queue.worker())
          sendsTo[line.to] = true;
        if (line.to == queue.worker())
          receivesFrom[line.from] = true;
      }
      queue.greet(sendsTo, receivesFrom, static_cast<char *>(scratch[next++].second));
    });
    for (const auto &[queue, memory] : scratch) {
      queue->use();
      cudaFree(memory);
    }
  }

  void look() {
    for (const std::unique_ptr<NcclQueue> &queue : queues) {
      const std::string problem = queue ? queue->problem() : "";
      if (!problem.empty())
        supervisor->fail(queue->worker(), std::make_exception_ptr(std::runtime_error(problem)));
    }
    if (supervisor->stopping())
      for (const std::unique_ptr<NcclQueue> &queue : queues)
        if (queue)
          queue->abort();
  }

  ncclUniqueId id;
  std::vector<NcclDevice> here;
  NcclOptions options;
  Supervisor *supervisor = nullptr;
  Queues queues;
  std::jthread watchdog; // destroyed, and so ended, before the queues
};

} // namespace sluice::runtime
