// What blocks, the slow way: devices that run small explicit programs over real channels, every interleaving
// of them. It knows the definitions of docs/language.md (statements, channels, service, groups, progress,
// connecting) and nothing of the compiler; what lib/Events finds in one pass is held against it.
//
// A state is where each device stands, which actions are done, what each channel end serves and how often
// each slot was emptied. The search is depth first over all states, so it is for a few dozen actions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace sluice::slow {

/// One stage's output, or input gradient, for one microbatch, on its way to the stage that uses it.
struct Carried {
  bool isGradient = false;
  uint32_t stage = 0, user = 0, microbatch = 0;
  auto tie() const { return std::tie(isGradient, stage, user, microbatch); }
  friend bool operator==(const Carried &a, const Carried &b) { return a.tie() == b.tie(); }
  friend bool operator<(const Carried &a, const Carried &b) { return a.tie() < b.tie(); }
};

/// A send, a receive, or one device's call of a joint op.
struct Action {
  enum Kind : uint8_t { Send, Receive, Joint } kind = Send;
  Carried carried;               ///< Of a send or receive.
  uint32_t peer = 0;             ///< The device at the other end.
  std::string name;              ///< Of a joint op.
  std::vector<uint32_t> members; ///< Its devices, ascending.
  bool isConnection = false;     ///< A joint op that two devices run before they use a channel: in no queue.
  uint32_t tag = ~0u;            ///< What the caller knows it by; no meaning here.
};

/// Whether `wait b` can mean `start a`.
bool sameName(const Action &a, const Action &b);

struct Statement {
  enum Kind : uint8_t {
    Compute, ///< Never waits: values that are missing are not the channels' business.
    Post,    ///< Blocks until all its actions, several in a group, are done.
    Start,   ///< Posts them and goes on.
    Wait     ///< Blocks until the first action of that name that was started and not yet waited for is done.
  } kind = Compute;
  std::vector<Action> actions;
  uint32_t tag = ~0u;
};

/// The statements of each device.
using ExplicitProgram = std::vector<std::vector<Statement>>;

/// What blocks, under the names that a file gives them.
struct Blocking {
  enum Key : uint8_t { Direction, Pair, Edge, Message } key = Direction;
  static constexpr uint32_t unbounded = ~0u;
  uint32_t depth = 0; ///< Slots per channel and direction; 0: rendezvous.
  bool servesDevice = false;
  bool atomicGroups = false;
  bool progressInWait = false;
  bool connectsOnFirstUse = false;
};
std::string str(const Blocking &blocking);
/// One line a device: `0: start send a0>1.2 to 1; wait ...`.
std::string str(const ExplicitProgram &program);

/// Where actions stand and whom they meet: fixed before anything runs, because a device has no choices.
struct Posting {
  struct Place {
    const Action *action;
    uint32_t device, statement;
    uint32_t end;             ///< The queue it is served in, a row of `ends`.
    uint32_t direction = ~0u; ///< Of a send or receive, a row of `directions`; of a joint op of `calls`.
    uint32_t number = 0;      ///< Its place in there.
    uint32_t wait = ~0u;      ///< Of a started action: the statement that waits for it, if any.
    bool isStarted = false;
  };
  struct Directed {
    std::vector<uint32_t> sends, receives; ///< In posting order; the n-th ones pair.
  };
  /// `program` with its connections written out if `blocking` makes them on first use.
  ExplicitProgram program;
  std::vector<Place> places;                            ///< Device by device, in posting order.
  std::vector<std::vector<std::vector<uint32_t>>> of;   ///< Per device and statement: places posted.
  std::vector<std::vector<uint32_t>> waitsFor;          ///< Per device and statement: place, or ~0.
  std::vector<std::vector<std::vector<uint32_t>>> ends; ///< Per end: places by statement, in posting order.
  std::vector<Directed> directions;
  std::vector<std::vector<uint32_t>> calls; ///< Per joint call of all members: their places; ~0: missing.

  Posting(const ExplicitProgram &written, const Blocking &blocking);
  Posting(const Posting &) = delete; // places point into `program`

  /// Sends and receives that meet as pairs but carry different messages.
  size_t crossedPairs() const;
  /// No send, receive, call or start lacks what it belongs to, and no pair is crossed.
  bool isWhole() const;
};

/// What all executions have in common once they cannot go on.
struct Outcome {
  size_t states = 0;
  /// Different final states met. One, if the language keeps its promise; the rest is of the first.
  size_t finals = 0;
  bool tooLarge = false;        ///< Given up after `mostStates`.
  std::vector<bool> done;       ///< Per place of the posting.
  std::vector<uint32_t> stands; ///< Per device: its statement; their number where it has finished.
  bool completes = false;
};
Outcome runEveryWay(const Posting &posting, const Blocking &blocking, size_t mostStates = 2'000'000);

} // namespace sluice::slow
