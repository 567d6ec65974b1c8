// Pairing, queues and waits of an explicit program, and its text.
#include "CommunicationMachine.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

namespace sluice::slow {

namespace {
using Key = std::vector<uint32_t>;

/// What the sends and receives between two devices that share a channel have in common.
Key channelOf(const Action &action, uint32_t device, Blocking::Key key) {
  if (action.kind == Action::Joint) {
    Key members = {~0u};
    members.insert(members.end(), action.members.begin(), action.members.end());
    return members;
  }
  const uint32_t from = action.kind == Action::Send ? device : action.peer;
  const uint32_t to = action.kind == Action::Send ? action.peer : device;
  if (key == Blocking::Pair)
    return {std::min(from, to), std::max(from, to)};
  Key channel = {from, to};
  if (key != Blocking::Direction)
    channel.insert(channel.end(), {action.carried.isGradient, action.carried.stage, action.carried.user});
  if (key == Blocking::Message)
    channel.push_back(action.carried.microbatch);
  return channel;
}

/// Before its first send to or receive from another device, each device makes a joint call of the two; the
/// calls that one statement needs stand in one statement.
ExplicitProgram connected(const ExplicitProgram &written) {
  ExplicitProgram program(written.size());
  for (uint32_t device = 0; device < written.size(); ++device) {
    std::set<uint32_t> known;
    for (const Statement &statement : written[device]) {
      Statement connects{Statement::Post, {}, statement.tag};
      if (statement.kind == Statement::Post || statement.kind == Statement::Start)
        for (const Action &action : statement.actions)
          if (action.kind != Action::Joint && known.insert(action.peer).second) {
            Action connect;
            connect.kind = Action::Joint;
            connect.isConnection = true;
            connect.members = {std::min(device, action.peer), std::max(device, action.peer)};
            connect.name = fmt::format("connect {} {}", connect.members[0], connect.members[1]);
            connects.actions.push_back(connect);
          }
      if (!connects.actions.empty())
        program[device].push_back(connects);
      program[device].push_back(statement);
    }
  }
  return program;
}

std::string text(const Action &action) {
  if (action.kind == Action::Joint)
    return action.name;
  return fmt::format("{} {}{}>{}.{} {} {}", action.kind == Action::Send ? "send" : "recv",
                     action.carried.isGradient ? 'g' : 'a', action.carried.stage, action.carried.user,
                     action.carried.microbatch, action.kind == Action::Send ? "to" : "from", action.peer);
}
} // namespace

bool sameName(const Action &a, const Action &b) {
  return a.kind == b.kind && a.carried == b.carried && a.peer == b.peer && a.name == b.name &&
         a.members == b.members;
}

Posting::Posting(const ExplicitProgram &written, const Blocking &blocking)
    : program(blocking.connectsOnFirstUse ? connected(written) : written) {
  std::map<Key, uint32_t> endOf, directionOf;
  std::map<std::tuple<std::string, Key, uint32_t>, uint32_t> callOf; // by name, members and number
  of.resize(program.size());
  waitsFor.resize(program.size());
  for (uint32_t device = 0; device < program.size(); ++device) {
    std::vector<uint32_t> started; // and not yet waited for
    std::map<std::pair<std::string, Key>, uint32_t> callsHere;
    for (uint32_t at = 0; at < program[device].size(); ++at) {
      const Statement &statement = program[device][at];
      of[device].emplace_back();
      waitsFor[device].push_back(~0u);
      if (statement.kind == Statement::Wait) {
        auto found = std::find_if(started.begin(), started.end(), [&](uint32_t place) {
          return sameName(*places[place].action, statement.actions.front());
        });
        if (found != started.end()) {
          places[*found].wait = at;
          waitsFor[device].back() = *found;
          started.erase(found);
        }
      }
      if (statement.kind != Statement::Post && statement.kind != Statement::Start)
        continue;
      for (const Action &action : statement.actions) {
        const auto place = static_cast<uint32_t>(places.size());
        places.push_back({&action, device, at, 0});
        Place &here = places.back();
        here.isStarted = statement.kind == Statement::Start;
        of[device].back().push_back(place);
        if (here.isStarted)
          started.push_back(place);

        Key channel = channelOf(action, device, blocking.key), end = {device};
        if (action.isConnection)
          end = {device, ~1u, place}; // an end of its own
        else if (!blocking.servesDevice)
          end.insert(end.end(), channel.begin(), channel.end());
        here.end = endOf.try_emplace(end, ends.size()).first->second;
        ends.resize(endOf.size());
        auto &queue = ends[here.end];
        if (queue.empty() || places[queue.back().front()].statement != at)
          queue.emplace_back();
        queue.back().push_back(place);

        if (action.kind == Action::Joint) {
          here.number = callsHere[{action.name, action.members}]++;
          here.direction =
              callOf.try_emplace({action.name, action.members, here.number}, calls.size()).first->second;
          calls.resize(callOf.size());
          auto &call = calls[here.direction];
          call.resize(action.members.size(), ~0u);
          call[std::find(action.members.begin(), action.members.end(), device) - action.members.begin()] =
              place;
          continue;
        }
        const bool isSend = action.kind == Action::Send;
        channel.insert(channel.end(), {isSend ? device : action.peer, isSend ? action.peer : device});
        here.direction = directionOf.try_emplace(channel, directions.size()).first->second;
        directions.resize(directionOf.size());
        auto &side = isSend ? directions[here.direction].sends : directions[here.direction].receives;
        here.number = static_cast<uint32_t>(side.size());
        side.push_back(place);
      }
    }
  }
}

size_t Posting::crossedPairs() const {
  size_t crossed = 0;
  for (const Directed &direction : directions)
    for (size_t n = 0; n < std::min(direction.sends.size(), direction.receives.size()); ++n)
      crossed +=
          !(places[direction.sends[n]].action->carried == places[direction.receives[n]].action->carried);
  return crossed;
}

bool Posting::isWhole() const {
  for (const Directed &direction : directions)
    if (direction.sends.size() != direction.receives.size())
      return false;
  for (const std::vector<uint32_t> &call : calls)
    if (std::find(call.begin(), call.end(), ~0u) != call.end())
      return false;
  for (const Place &place : places)
    if (place.isStarted && place.wait == ~0u)
      return false;
  for (size_t device = 0; device < program.size(); ++device)
    for (size_t at = 0; at < program[device].size(); ++at)
      if (program[device][at].kind == Statement::Wait && waitsFor[device][at] == ~0u)
        return false;
  return crossedPairs() == 0;
}

std::string str(const Blocking &blocking) {
  static constexpr const char *keys[] = {"direction", "pair", "edge", "message"};
  return fmt::format("{}, key {}{}{}{}{}",
                     blocking.depth == 0                     ? "rendezvous"
                     : blocking.depth == Blocking::unbounded ? "unbounded"
                                                             : fmt::format("eager({})", blocking.depth),
                     keys[blocking.key], blocking.servesDevice ? ", service device" : "",
                     blocking.atomicGroups ? ", groups atomic" : "",
                     blocking.progressInWait ? ", progress in_wait" : "",
                     blocking.connectsOnFirstUse ? ", connect first_use" : "");
}

std::string str(const ExplicitProgram &program) {
  static constexpr const char *words[] = {"compute", "", "start ", "wait "};
  std::string result;
  for (size_t device = 0; device < program.size(); ++device) {
    result += fmt::format("{}:", device);
    for (const Statement &statement : program[device]) {
      result += fmt::format(" {}{}", words[statement.kind], statement.actions.size() > 1 ? "{" : "");
      for (size_t i = 0; i < statement.actions.size(); ++i)
        result += (i ? ", " : "") + text(statement.actions[i]);
      result += statement.actions.size() > 1 ? "};" : ";";
    }
    result += '\n';
  }
  return result;
}

} // namespace sluice::slow
