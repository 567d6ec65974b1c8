#include "CommunicationMachine.h"

#include <algorithm>
#include <unordered_set>

namespace sluice::slow {

namespace {

class Machine {
public:
  Machine(const Posting &posting, const Blocking &blocking) : posting(posting), blocking(blocking) {
    devices = posting.program.size();
    heads = devices + posting.places.size();
    slots = heads + posting.ends.size();
    size = slots + (hasSlots() ? posting.directions.size() * blocking.depth : 0);
  }

  /// Bytes: where each device stands; 1 for each action that is done; of each end how many statements it
  /// has served; of each slot how many messages have left it.
  using State = std::string;
  State initial() const { return State(size, '\0'); }

  /// Every state that one move away from `state` gives.
  void addMoves(const State &state, std::vector<State> &moves) const {
    for (uint32_t device = 0; device < devices; ++device)
      if (canGoOn(state, device)) {
        moves.push_back(state);
        ++moves.back()[device];
      }
    for (uint32_t place = 0; place < posting.places.size(); ++place)
      if (!isDone(state, place) && isFirstOfItsMove(place) && canComplete(state, place)) {
        moves.push_back(state);
        complete(moves.back(), place);
      }
  }

  bool isDone(const State &state, uint32_t place) const { return state[devices + place] != 0; }
  uint32_t stands(const State &state, uint32_t device) const { return static_cast<uint8_t>(state[device]); }

private:
  using Place = Posting::Place;

  bool hasSlots() const { return blocking.depth != 0 && blocking.depth != Blocking::unbounded; }

  /// Whether the statement at which the device stands blocks it no longer.
  bool canGoOn(const State &state, uint32_t device) const {
    const uint32_t at = stands(state, device);
    if (at == posting.program[device].size())
      return false;
    switch (posting.program[device][at].kind) {
    case Statement::Compute:
    case Statement::Start:
      return true;
    case Statement::Post:
      return std::all_of(posting.of[device][at].begin(), posting.of[device][at].end(),
                         [&](uint32_t place) { return isDone(state, place); });
    case Statement::Wait:
      break;
    }
    const uint32_t awaited = posting.waitsFor[device][at];
    return awaited != ~0u && isDone(state, awaited);
  }

  /// Whether its end of the channel serves it: posted, at the head of the queue, and moved on by its device.
  bool isServed(const State &state, uint32_t place) const {
    const Place &here = posting.places[place];
    if (stands(state, here.device) < here.statement)
      return false;
    const auto &queue = posting.ends[here.end];
    const auto head = static_cast<uint8_t>(state[heads + here.end]);
    if (head == queue.size() || posting.places[queue[head].front()].statement != here.statement)
      return false;
    return !blocking.progressInWait || !here.isStarted ||
           (here.wait != ~0u && stands(state, here.device) >= here.wait);
  }

  /// The other end of a send or receive; ~0 if none is ever posted.
  uint32_t partner(uint32_t place) const {
    const Place &here = posting.places[place];
    const Posting::Directed &direction = posting.directions[here.direction];
    const auto &side = here.action->kind == Action::Send ? direction.receives : direction.sends;
    return here.number < side.size() ? side[here.number] : ~0u;
  }

  size_t slotOf(const Place &send) const {
    return slots + send.direction * blocking.depth + send.number % blocking.depth;
  }

  /// Whether the channel model lets it complete, its group aside.
  bool could(const State &state, uint32_t place) const {
    if (isDone(state, place))
      return true;
    if (!isServed(state, place))
      return false;
    const Place &here = posting.places[place];
    if (here.action->kind == Action::Joint) {
      const auto &call = posting.calls[here.direction];
      return std::all_of(call.begin(), call.end(),
                         [&](uint32_t member) { return member != ~0u && isServed(state, member); });
    }
    const uint32_t other = partner(place);
    if (blocking.depth == 0) // both ends at once
      return other != ~0u && isServed(state, other);
    if (here.action->kind == Action::Receive) // the message lies in the channel
      return other != ~0u && isDone(state, other);
    if (!hasSlots())
      return true;
    // Its slot: message n gets the one that message n - depth has left.
    return static_cast<uint8_t>(state[slotOf(here)]) == here.number / blocking.depth;
  }

  bool couldWholeGroup(const State &state, uint32_t place) const {
    const Place &here = posting.places[place];
    const auto &group = posting.of[here.device][here.statement];
    return std::all_of(group.begin(), group.end(), [&](uint32_t member) { return could(state, member); });
  }

  bool canComplete(const State &state, uint32_t place) const {
    if (!could(state, place))
      return false;
    if (!blocking.atomicGroups || posting.places[place].action->kind == Action::Joint)
      return true;
    return couldWholeGroup(state, place) && (blocking.depth != 0 || couldWholeGroup(state, partner(place)));
  }

  /// Those that complete together are one move, made by the first of them.
  bool isFirstOfItsMove(uint32_t place) const {
    const Place &here = posting.places[place];
    if (here.action->kind == Action::Joint)
      return place ==
             *std::min_element(posting.calls[here.direction].begin(), posting.calls[here.direction].end());
    return blocking.depth != 0 || here.action->kind == Action::Send;
  }

  void complete(State &state, uint32_t place) const {
    const Place &here = posting.places[place];
    if (here.action->kind == Action::Joint) {
      for (uint32_t member : posting.calls[here.direction])
        finish(state, member);
      return;
    }
    finish(state, place);
    if (blocking.depth == 0)
      finish(state, partner(place));
    else if (here.action->kind == Action::Receive && hasSlots())
      ++state[slotOf(posting.places[partner(place)])];
  }

  void finish(State &state, uint32_t place) const {
    state[devices + place] = 1;
    const auto &queue = posting.ends[posting.places[place].end];
    const auto &served = queue[static_cast<uint8_t>(state[heads + posting.places[place].end])];
    if (std::all_of(served.begin(), served.end(), [&](uint32_t other) { return isDone(state, other); }))
      ++state[heads + posting.places[place].end];
  }

  const Posting &posting;
  const Blocking &blocking;
  size_t devices, heads, slots, size;
};

} // namespace

Outcome runEveryWay(const Posting &posting, const Blocking &blocking, size_t mostStates) {
  const Machine machine(posting, blocking);
  Outcome outcome;
  std::unordered_set<std::string> seen = {machine.initial()};
  std::vector<std::string> left = {machine.initial()}, moves;
  std::string final;
  while (!left.empty()) {
    if (seen.size() > mostStates) {
      outcome.tooLarge = true;
      return outcome;
    }
    const std::string state = std::move(left.back());
    left.pop_back();
    moves.clear();
    machine.addMoves(state, moves);
    if (moves.empty() && outcome.finals++ == 0)
      final = state;
    for (std::string &move : moves)
      if (seen.insert(move).second)
        left.push_back(std::move(move));
  }
  outcome.states = seen.size();
  outcome.completes = true;
  for (uint32_t place = 0; place < posting.places.size(); ++place)
    outcome.done.push_back(machine.isDone(final, place));
  for (uint32_t device = 0; device < posting.program.size(); ++device) {
    outcome.stands.push_back(machine.stands(final, device));
    outcome.completes &= outcome.stands.back() == posting.program[device].size();
  }
  return outcome;
}

} // namespace sluice::slow
