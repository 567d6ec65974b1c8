// Messages between threads by rendezvous: when both ends have started, their boundaries are exchanged. No
// locks, no copies; nothing is allocated after the start.
//
// Each end posts its boundary and goes on. Whoever waits first after both have posted claims the exchange and
// does it, mostly the receiver, which then finds the content in its own cache; who waits for a send does not
// depend on the other's wait. A slot serves message number n, then n + the number of slots, and so on.
#pragma once

#include "Context.h"
#include "Supervisor.h"

#include <algorithm>
#include <span>
#include <utility>

namespace sluice::runtime {

#ifdef SLUICE_TEST_RELAXED // a fault on purpose, which tests of ThreadSanitizer must see
inline constexpr std::memory_order publishing = std::memory_order_relaxed;
#else
inline constexpr std::memory_order publishing = std::memory_order_seq_cst;
#endif

template <class Boundary> void swapContents(Boundary &one, Boundary &other) {
  using std::swap;
  swap(one, other);
}

template <class Boundary> class Rendezvous {
  struct Slot;

public:
  static constexpr ChannelModel channelModel = ChannelModel::rendezvous;

  struct Request {
    Slot *slot = nullptr;
    uint64_t turn = 0; ///< Of the slot's messages, counted from 1.
    Waiter *other = nullptr;
  };

  void open(const Network &network, Supervisor &supervisor) {
    pipes = std::make_unique<Pipe[]>(network.lines.size());
    for (size_t channel = 0; channel < network.lines.size(); ++channel) {
      const Line &line = network.lines[channel];
      const uint32_t count = std::max({1u, line.sends, line.receives});
      pipes[channel].slots = std::make_unique<Slot[]>(count);
      for (End *end : {&pipes[channel].send, &pipes[channel].receive})
        end->count = count;
      pipes[channel].send.other = &supervisor.waiter(line.to);
      pipes[channel].receive.other = &supervisor.waiter(line.from);
    }
  }

  Request startSend(const Message &message, Boundary &boundary) {
    Pipe &pipe = pipes[message.channel];
    return start(pipe, pipe.send, &Slot::send, boundary);
  }
  Request startReceive(const Message &message, Boundary &boundary) {
    Pipe &pipe = pipes[message.channel];
    return start(pipe, pipe.receive, &Slot::receive, boundary);
  }

  /// False: the run is being stopped.
  bool wait(const Request &request, Waiter &waiter) {
    Slot &slot = *request.slot;
    bool hasMoved = false;
    const bool isDone = waiter.until(
        [&] { return slot.done.load() >= request.turn || (hasMoved = slot.move(request.turn)); });
    if (hasMoved)
      request.other->wake();
    return isDone;
  }

private:
  struct alignas(64) Slot {
    std::atomic<Boundary *> send = nullptr, receive = nullptr; ///< Posted for the present turn.
    std::atomic<uint64_t> claimed = 0, done = 0;               ///< The latest turn that is.

    /// Exchanges the contents of this turn, if both ends are there and nobody else does.
    bool move(uint64_t turn) {
      Boundary *const from = send.load(), *const to = receive.load();
      uint64_t before = turn - 1;
      if (!from || !to || !claimed.compare_exchange_strong(before, turn))
        return false;
      swapContents(*from, *to);
      send.store(nullptr, std::memory_order_relaxed);
      receive.store(nullptr, std::memory_order_relaxed);
      done.store(turn, publishing);
      return true;
    }
  };
  /// Touched by the thread at this end alone.
  struct alignas(64) End {
    uint32_t next = 0, count = 1; ///< Slots.
    uint64_t turn = 1;
    Waiter *other = nullptr;
  };
  struct Pipe {
    std::unique_ptr<Slot[]> slots;
    End send, receive;
  };

  Request start(Pipe &pipe, End &end, std::atomic<Boundary *> Slot::*side, Boundary &boundary) {
    Slot &slot = pipe.slots[end.next];
    const uint64_t turn = end.turn;
    // There are as many slots as messages open at once, so a later message of the channel has been waited for
    // where the slot's last one has not, and that one has been posted at both ends too.
    while (slot.done.load(std::memory_order_acquire) < turn - 1)
      if (slot.move(turn - 1))
        end.other->wake();
    (slot.*side).store(&boundary, publishing);
    end.other->wake();
    if (++end.next == end.count) {
      end.next = 0;
      ++end.turn;
    }
    return {&slot, turn, end.other};
  }

  std::unique_ptr<Pipe[]> pipes;
};

} // namespace sluice::runtime
