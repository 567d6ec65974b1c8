// The transport between workers that are threads of one process. A message moves by exchanging the sender's
// boundary with the receiver's: nothing is copied or allocated, the buffers change owners.
//
// Threads<Boundary> moves it when both ends have started, so a send ends when its receive has started
// (rendezvous, Rendezvous.h). Threads<Boundary, ChannelModel::eager> has one buffer between, unbounded as
// many as are needed, which stay; a send ends when its content is in one. Rings are allocated once but for
// those. Both ends lock the channel for the few instructions of a start; waiting reads one atomic.
#pragma once

#include "Rendezvous.h"

#include <algorithm>
#include <span>
#include <utility>

namespace sluice::runtime {

template <class Boundary, ChannelModel model = ChannelModel::rendezvous> class Threads {
  static_assert(model == ChannelModel::eager || model == ChannelModel::unbounded,
                "threads offer rendezvous, eager and unbounded channels");
  struct Pipe;

public:
  static constexpr ChannelModel channelModel = model;

  /// The `number`-th message of a channel, at one end.
  struct Request {
    Pipe *pipe = nullptr;
    uint64_t number = 0;
    bool isSend = false;
  };

  void open(const Network &network, Supervisor &supervisor) {
    pipes = std::make_unique<Pipe[]>(network.lines.size());
    for (size_t channel = 0; channel < network.lines.size(); ++channel) {
      const Line &line = network.lines[channel];
      pipes[channel].sends.resize(std::max(1u, line.sends));
      pipes[channel].receives.resize(std::max(1u, line.receives));
      pipes[channel].sender = &supervisor.waiter(line.from);
      pipes[channel].receiver = &supervisor.waiter(line.to);
      pipes[channel].between.resize(1);
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
    return {&pipe, number, true};
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
    return {&pipe, number, false};
  }

  /// False: the run is being stopped.
  bool wait(const Request &request, Waiter &waiter) {
    const std::atomic<uint64_t> &progress = request.isSend ? request.pipe->left : request.pipe->moved;
    return waiter.until([&] { return progress.load() > request.number; });
  }

private:
  struct alignas(64) Pipe {
    // Moves all that can move, under the lock. True if anything has: the other end may wait for it.
    // `between` holds messages [moved, left), those that have left their sender and not arrived.
    bool move() {
      const uint64_t arrivedBefore = moved.load(std::memory_order_relaxed);
      const uint64_t leftBefore = left.load(std::memory_order_relaxed);
      uint64_t arrived = arrivedBefore, gone = leftBefore;
      for (bool moves = true; moves;) {
        moves = false;
        for (; gone < sent && hasRoom(arrived, gone); ++gone, moves = true)
          swapContents(*sends[gone % sends.size()], between[gone % between.size()]);
        for (; arrived < gone && arrived < received; ++arrived, moves = true)
          swapContents(between[arrived % between.size()], *receives[arrived % receives.size()]);
      }
      if (gone != leftBefore)
        left.store(gone, publishing);
      if (arrived != arrivedBefore)
        moved.store(arrived, publishing);
      return gone != leftBefore || arrived != arrivedBefore;
    }
    bool hasRoom(uint64_t arrived, uint64_t gone) {
      if (gone - arrived < between.size())
        return true;
      if constexpr (model == ChannelModel::eager)
        return false;
      std::vector<Boundary> larger(2 * between.size());
      for (uint64_t number = arrived; number < gone; ++number)
        larger[number % larger.size()] = std::move(between[number % between.size()]);
      between = std::move(larger);
      return true;
    }

    std::mutex mutex;
    std::vector<Boundary *> sends, receives; // rings, by number
    std::vector<Boundary> between;           // ring
    uint64_t sent = 0, received = 0;
    std::atomic<uint64_t> left = 0, moved = 0;
    Waiter *sender = nullptr, *receiver = nullptr;
  };
  std::unique_ptr<Pipe[]> pipes;
};

template <class Boundary> class Threads<Boundary, ChannelModel::rendezvous> : public Rendezvous<Boundary> {};

} // namespace sluice::runtime
