// Runs device programs against each other under the rules of their channels: the least fixpoint of the event
// graph, which every execution reaches. Linear in ops; with a clock the same walk gives the times.
//
// An op's own inputs are not looked at: what a device uses before it is there is an error of another family
// (2xx, 408), never a wait. A device stops at a send, receive or joint call until its requests are done, and
// at a wait until the started request is.
#pragma once

#include "Events/Lanes.h"
#include "Events/OwnMoves.h"
#include "Events/Requests.h"

namespace sluice {

/// Times of ops and transfers, for a walk with a clock. In units of the cost model.
class EventClock {
public:
  virtual ~EventClock() = default;
  /// How long the device computes at the statement of `count` ops that begins at `first`.
  virtual int64_t duration(OpId first, uint32_t count) const = 0;
  /// How long the message of a send, or a joint call, is under way.
  virtual int64_t transfer(OpId request) const = 0;
  /// The way of the message of a send, if it shares a lane with others; else null.
  virtual const Route *sharedRoute(OpId) const { return nullptr; }
};

class Execution {
public:
  /// All are referred to. With a clock: `lanes` of messages that delay each other, and `moves`, which fills
  /// in what a device does alone, if that takes time.
  Execution(const Requests &requests, const ChannelRules &rules, const EventClock *clock = nullptr,
            Lanes *lanes = nullptr, OwnMoves *moves = nullptr);

  /// True if every device reaches the end of its program.
  bool run();

  bool isStuck(uint32_t device) const { return cursor[device] != program.deviceBegin[device + 1]; }
  /// The op (of a group the first) each device stands at; its program's end where it has finished.
  llvm::ArrayRef<OpId> fronts() const { return cursor; }
  bool isPosted(RequestId r) const { return flags[r] & Posted; }
  bool isReady(RequestId r) const { return flags[r] & Ready; }
  bool isDone(RequestId r) const { return flags[r] & Done; }
  /// Its queue has come to it.
  bool isServed(RequestId r) const { return flags[r] & Served; }
  bool isAwaited(RequestId r) const { return flags[r] & Awaited; }
  /// Requests done on all devices.
  uint64_t doneCount() const { return done; }

  /// With a clock, of a program that completes: when each op has ended, and of requests when the other end
  /// was there as well, so that the rest is under way, and when they were done.
  std::vector<int64_t> endOf, metAt, doneAt;
  /// With lanes, per request, of a send: when its transfer was ready to go and when it had arrived.
  std::vector<int64_t> sentAt, arrivedAt;
  /// A time has left 64 bits: none is right.
  bool hasOverflowed() const { return overflowed; }

private:
  enum : uint8_t {
    Posted = 1,
    Served = 2, ///< Every request of an earlier statement at its queue is done.
    Ready = 4,
    Met = 8, ///< What it needs of the other end is there.
    Done = 16,
    Awaited = 32, ///< Its device stands at its wait, or has passed it.
  };

  template <bool isTimed> bool walk();
  template <bool isTimed> void runDevice(uint32_t device);
  template <bool isTimed> void look(RequestId r);
  template <bool isTimed> void end(RequestId r);
  template <bool isTimed> int64_t doneTime(RequestId r);
  int64_t metTime(RequestId r) const;
  const Route *sharedRoute(RequestId r) const;
  bool hasArrived(RequestId r);
  void send(RequestId r, const Route &route, int64_t time);
  void settle();
  bool connect(uint32_t device, RequestId first, RequestId end);
  void post(uint32_t device, RequestId first, RequestId end);
  bool wait(uint32_t device);
  void serve(uint32_t queue);
  void makeReady(RequestId r);
  bool isMet(RequestId r) const;
  void meet(RequestId r);
  void resume(uint32_t device);
  /// A send that takes the slot of an earlier message.
  bool isBounded(RequestId send) const {
    return !rules.isUnbounded() && requests.ordinal[send] >= rules.depth;
  }
  int64_t plus(int64_t a, int64_t b);
  bool isOpen(RequestId r) const { return unmet.empty() || unmet[requests.statement[r]] == 0; }

  const Requests &requests;
  const Program &program;
  const ChannelRules rules;
  const EventClock *clock;
  Lanes *lanes;
  OwnMoves *moves;

  std::vector<uint8_t> flags;       // per request
  std::vector<uint32_t> unmet;      // per first request of a statement, under atomic groups: members not met
  std::vector<uint32_t> absent;     // per meeting: calls that are not ready
  std::vector<RequestId> queueNext; // per queue: the first request not served yet
  std::vector<uint32_t> queueLeft;  // per queue: requests of the statement it serves that are not done

  std::vector<OpId> cursor;         // per device
  std::vector<OpId> resumeAt;       // per device: where it goes on
  std::vector<RequestId> nextPost;  // per device: its first request not posted
  std::vector<uint32_t> nextWait;   // per device, into requests.waits
  std::vector<RequestId> blockedBy; // per device: the statement or awaited request it stands at
  std::vector<uint32_t> blocks;     // per device: how many things it stands at are missing
  /// Per pair of devices, once one of them has come to its first request: that one, or `open`.
  static constexpr uint32_t open = ~0u;
  llvm::DenseMap<uint64_t, uint32_t> connections;

  std::vector<uint32_t> runnable;
  std::vector<RequestId> changed; // requests to look at again
  uint64_t done = 0;

  std::vector<int64_t> now;      // per device
  std::vector<int64_t> beganAt;  // per device: when it came to a statement whose pairs are not connected
  std::vector<int64_t> readyAt;  // per request
  std::vector<int64_t> freeAt;   // per queue: when all it has served was done
  std::vector<int64_t> calledAt; // per meeting: when the last call so far was ready
  bool overflowed = false;
};

} // namespace sluice
