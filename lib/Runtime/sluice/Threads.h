// The transport between devices that are threads of one process. A message moves by exchanging the
// sender's boundary with the receiver's, as soon as both have started: nothing is copied or allocated, the
// two buffers change owners, and a send ends when its receive has started (rendezvous).
//
// The most requests that are open at once are known, so the queues are allocated once. Both ends lock the
// channel for the few instructions of a start; waiting reads one atomic.
#pragma once

#include "Context.h"
#include "Supervisor.h"

#include <algorithm>
#include <span>
#include <utility>

namespace sluice::runtime {

template <class Boundary> class Threads {
  struct Pipe;

public:
  static constexpr ChannelModel channelModel = ChannelModel::rendezvous;

  /// The `number`-th message of a channel; complete when that many have moved.
  struct Request {
    Pipe *pipe = nullptr;
    uint64_t number = 0;
  };

  void open(const Network &network, Supervisor &supervisor) {
    pipes = std::make_unique<Pipe[]>(network.lines.size());
    for (size_t channel = 0; channel < network.lines.size(); ++channel) {
      const Line &line = network.lines[channel];
      pipes[channel].sends.resize(std::max(1u, line.sends));
      pipes[channel].receives.resize(std::max(1u, line.receives));
      pipes[channel].sender = &supervisor.waiter(line.from);
      pipes[channel].receiver = &supervisor.waiter(line.to);
    }
  }

  Request startSend(const Message &message, Boundary &boundary) {
    Pipe &pipe = pipes[message.channel];
    std::unique_lock lock(pipe.mutex);
    const uint64_t number = pipe.sent++;
    pipe.sends[number % pipe.sends.size()] = &boundary;
    if (pipe.move()) {
      lock.unlock();
      pipe.receiver->wake();
    }
    return {&pipe, number};
  }

  Request startReceive(const Message &message, Boundary &boundary) {
    Pipe &pipe = pipes[message.channel];
    std::unique_lock lock(pipe.mutex);
    const uint64_t number = pipe.received++;
    pipe.receives[number % pipe.receives.size()] = &boundary;
    if (pipe.move()) {
      lock.unlock();
      pipe.sender->wake();
    }
    return {&pipe, number};
  }

  /// False: the run is being stopped.
  bool wait(const Request &request, Waiter &waiter) {
    return waiter.until([&] { return request.pipe->moved.load() > request.number; });
  }

private:
  struct alignas(64) Pipe {
    // Moves every message whose two ends have started; under the lock.
    bool move() {
      uint64_t number = moved.load(std::memory_order_relaxed);
      const uint64_t end = std::min(sent, received);
      if (number == end)
        return false;
      for (; number < end; ++number) {
        using std::swap;
        swap(*sends[number % sends.size()], *receives[number % receives.size()]);
      }
      moved.store(end);
      return true;
    }
    std::mutex mutex;
    std::vector<Boundary *> sends, receives; // rings, by number
    uint64_t sent = 0, received = 0;
    std::atomic<uint64_t> moved = 0;
    Waiter *sender = nullptr, *receiver = nullptr;
  };
  std::unique_ptr<Pipe[]> pipes;
};

} // namespace sluice::runtime
