#include "SlowEvents.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <string>
#include <tuple>

namespace sluice::slow {

namespace {

struct Event;
struct Need {
  size_t event;
  int64_t behind = 0; ///< Time between that event and this one.
};
struct Event {
  std::vector<Need> needs;
  int64_t own = 0; ///< Behind all that it needs.
  bool never = false;
  int64_t time = -1;
};

struct Statement {
  uint32_t device = 0;
  OpId first = 0, end = 0;
  std::vector<size_t> requests; ///< Posted here.
};
struct Request {
  OpId op = 0;
  size_t statement = 0;
  std::string queue;   ///< Its end of its channel.
  std::string channel; ///< Channel and direction; of a call, its name.
  size_t ordinal = 0;
  int64_t wait = -1; ///< Statement of the wait of a started one.
};

std::string joined(const std::vector<uint32_t> &devices) {
  std::string text;
  for (uint32_t device : devices)
    text += std::to_string(device) + " ";
  return text;
}

class Graph {
public:
  Graph(const Program &program, const CostModel &costs, const ChannelRules &rules)
      : program(program), costs(costs), rules(rules) {}

  EventTimes solve() {
    findStatements();
    for (size_t i = 0; i < statements.size(); ++i)
      addStatement(i);
    for (size_t r = 0; r < requests.size(); ++r) {
      addReady(r);
      addDone(r);
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (Event &event : events)
        changed |= happen(event);
    }
    return times();
  }

private:
  // Events are numbered: two a statement, then three a request. `met`: all that `done` needs is there.
  size_t begin(size_t statement) const { return 2 * statement; }
  size_t end(size_t statement) const { return 2 * statement + 1; }
  size_t ready(size_t r) const { return 2 * statements.size() + 3 * r; }
  size_t met(size_t r) const { return ready(r) + 1; }
  size_t done(size_t r) const { return ready(r) + 2; }

  const Op &op(size_t r) const { return program.ops[requests[r].op]; }
  bool isCall(const Op &op) const {
    if (op.kind == OpKind::Norm)
      return !op.has(Local) && program.devices > 1;
    return (op.kind == OpKind::Reduce || op.kind == OpKind::ReduceTied) && program.membersOf(op).size() > 1;
  }
  /// Both stages, the sender's first.
  std::pair<uint32_t, uint32_t> stagesOf(OpId id) const {
    const uint32_t here = program.ops[id].stage, there = program.peerStageOf(id);
    return program.ops[id].isSend() ? std::pair(here, there) : std::pair(there, here);
  }
  bool isGradient(OpId id) const {
    return program.ops[id].kind == OpKind::SendGradient || program.ops[id].kind == OpKind::RecvGradient;
  }
  int64_t transfer(OpId id) const {
    const auto [from, to] = stagesOf(id);
    const uint32_t m = program.ops[id].microbatch;
    for (size_t i = 0; i < program.skips.size() && program.ops[id].namesPeer(); ++i)
      if (std::set{from, to} == std::set{program.skips[i].from, program.skips[i].to})
        return costs.skipTransfer[i].at(isGradient(id), m);
    return isGradient(id) ? costs.gradientTransfer.at(from, m) : costs.activationTransfer.at(from, m);
  }

  void findStatements() {
    std::map<std::pair<uint32_t, std::string>, size_t> ordinals;
    std::map<std::pair<uint32_t, std::string>, std::vector<size_t>> started;
    for (uint32_t device = 0; device < program.devices; ++device)
      for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1];) {
        Statement statement{device, id, id + 1, {}};
        while (statement.end < program.deviceBegin[device + 1] &&
               (program.ops[statement.end].has(OverlapFollower) ||
                program.ops[statement.end].has(GroupFollower)))
          ++statement.end;
        for (; id < statement.end; ++id) {
          const Op &each = program.ops[id];
          if (!each.isCommunication() && !isCall(each))
            continue;
          Op named = each;
          named.flags = 0;
          const std::string name =
              fmt::format("{} {}", str(named), each.namesPeer() ? program.peerStageOf(id) : 0);
          if (each.isWait()) {
            std::vector<size_t> &open = started[{device, name}];
            waitFor.push_back(open.empty() ? -1 : static_cast<int64_t>(open.front()));
            waitAt.push_back(statements.size());
            if (!open.empty()) {
              requests[open.front()].wait = static_cast<int64_t>(statements.size());
              open.erase(open.begin());
            }
            continue;
          }
          if (each.isStarted())
            started[{device, name}].push_back(requests.size());
          statement.requests.push_back(requests.size());
          Request request{id, statements.size(), "", "", 0};
          nameChannel(request, device, name);
          request.ordinal =
              ordinals[{each.isSend(), request.channel + std::to_string(isCall(each) ? device : 0)}]++;
          requests.push_back(request);
        }
        statements.push_back(statement);
      }
    events.resize(2 * statements.size() + 3 * requests.size());
  }

  void nameChannel(Request &request, uint32_t device, const std::string &name) {
    const Op &each = program.ops[request.op];
    if (!each.isCommunication()) {
      request.channel = "call " + name;
      request.queue = fmt::format("calls {}at {}", joined(program.membersOf(each)), device);
    } else {
      const auto [from, to] = stagesOf(request.op);
      const uint32_t a = program.deviceOf(from, each.microbatch), b = program.deviceOf(to, each.microbatch);
      std::string key = fmt::format("{} to {}", a, b);
      if (rules.key == ChannelRules::Key::Pair)
        key = fmt::format("{} and {}", std::min(a, b), std::max(a, b));
      if (rules.key == ChannelRules::Key::Edge || rules.key == ChannelRules::Key::Message)
        key += fmt::format(", {} to {} {}", from, to, isGradient(request.op));
      if (rules.key == ChannelRules::Key::Message)
        key += fmt::format(" of {}", each.microbatch);
      request.channel = fmt::format("{}: from {}", key, a);
      request.queue = fmt::format("{} at {}", key, device);
    }
    if (rules.deviceService)
      request.queue = fmt::format("at {}", device);
  }

  void addStatement(size_t i) {
    const Statement &statement = statements[i];
    Event &begins = events[begin(i)], &ends = events[end(i)];
    auto afterBefore = [&](size_t of, Event &event) {
      if (of > 0 && statements[of - 1].device == statements[of].device)
        event.needs.push_back({end(of - 1)});
    };
    afterBefore(i, begins);
    // Before the first request between two devices both come together.
    for (size_t r : statement.requests) {
      if (!rules.connectOnFirstUse || isCall(op(r)))
        continue;
      const uint32_t peer = peerDevice(r);
      if (firstBetween(statement.device, peer) != static_cast<int64_t>(i))
        continue;
      const int64_t other = firstBetween(peer, statement.device);
      if (other < 0)
        begins.never = true;
      else
        afterBefore(static_cast<size_t>(other), begins);
    }
    ends.needs.push_back({begin(i)});
    for (size_t w = 0; w < waitAt.size(); ++w)
      if (waitAt[w] == i) {
        if (waitFor[w] < 0)
          ends.never = true;
        else
          ends.needs.push_back({done(static_cast<size_t>(waitFor[w]))});
      }
    for (size_t r : statement.requests)
      if (!op(r).isStarted())
        ends.needs.push_back({done(r)});
    ends.own = durationOfGroup(costs, &program.ops[statement.first], statement.end - statement.first);
  }
  uint32_t peerDevice(size_t r) const {
    const auto [from, to] = stagesOf(requests[r].op);
    return program.deviceOf(op(r).isSend() ? to : from, op(r).microbatch);
  }
  int64_t firstBetween(uint32_t here, uint32_t there) const {
    for (size_t i = 0; i < statements.size(); ++i)
      for (size_t r : statements[i].requests)
        if (statements[i].device == here && !isCall(op(r)) && peerDevice(r) == there)
          return static_cast<int64_t>(i);
    return -1;
  }

  void addReady(size_t r) {
    Event &event = events[ready(r)];
    event.needs.push_back({begin(requests[r].statement)});
    int64_t before = -1; // the statement before at the same end
    for (size_t q = 0; q < requests.size(); ++q)
      if (requests[q].queue == requests[r].queue && requests[q].statement < requests[r].statement)
        before = std::max(before, static_cast<int64_t>(requests[q].statement));
    for (size_t q = 0; q < requests.size(); ++q)
      if (requests[q].queue == requests[r].queue && static_cast<int64_t>(requests[q].statement) == before)
        event.needs.push_back({done(q)});
    if (rules.progressInWait && op(r).isStarted()) {
      if (requests[r].wait < 0)
        event.never = true;
      else
        event.needs.push_back({begin(static_cast<size_t>(requests[r].wait))});
    }
  }

  /// The n-th of the other kind on the same channel.
  int64_t onChannel(size_t r, bool isSend, int64_t ordinal) const {
    for (size_t q = 0; q < requests.size(); ++q)
      if (requests[q].channel == requests[r].channel && op(q).isSend() == isSend &&
          static_cast<int64_t>(requests[q].ordinal) == ordinal)
        return static_cast<int64_t>(q);
    return -1;
  }

  /// What `done(r)` needs, but for the time a message is under way.
  void needsOf(size_t r, Event &event) const {
    event.needs.push_back({ready(r)});
    auto need = [&](int64_t q, bool isDone) {
      if (q < 0)
        event.never = true;
      else
        event.needs.push_back({isDone ? done(static_cast<size_t>(q)) : ready(static_cast<size_t>(q))});
    };
    const auto ordinal = static_cast<int64_t>(requests[r].ordinal);
    if (isCall(op(r))) {
      std::set<uint32_t> present;
      for (size_t q = 0; q < requests.size(); ++q)
        if (requests[q].channel == requests[r].channel && requests[q].ordinal == requests[r].ordinal) {
          present.insert(statements[requests[q].statement].device);
          event.needs.push_back({ready(q)});
        }
      event.never |= present.size() != program.membersOf(op(r)).size();
    } else if (rules.isRendezvous()) {
      need(onChannel(r, !op(r).isSend(), ordinal), false);
    } else if (!op(r).isSend()) {
      need(onChannel(r, true, ordinal), true);
    } else if (!rules.isUnbounded() && ordinal >= static_cast<int64_t>(rules.depth)) {
      need(onChannel(r, false, ordinal - rules.depth), true);
    }
  }

  void addDone(size_t r) {
    Event &all = events[met(r)], &event = events[done(r)];
    needsOf(r, all);
    event.needs.push_back({met(r)});
    if (isCall(op(r)))
      return;
    const int64_t partner = onChannel(r, !op(r).isSend(), static_cast<int64_t>(requests[r].ordinal));
    // What pairs travels, even if it is not what the receive names.
    const size_t send = op(r).isSend() || partner < 0 ? r : static_cast<size_t>(partner);
    if (rules.isRendezvous())
      event.own = transfer(requests[send].op);
    else if (send != r)
      event.needs.push_back({done(send), transfer(requests[send].op)});
    if (!rules.atomicGroups)
      return;
    for (size_t member : statements[requests[r].statement].requests)
      needsOf(member, all);
    if (rules.isRendezvous() && partner >= 0)
      for (size_t member : statements[requests[static_cast<size_t>(partner)].statement].requests)
        needsOf(member, all);
  }

  bool happen(Event &event) {
    if (event.never)
      return false;
    int64_t time = 0;
    for (const Need &need : event.needs) {
      if (events[need.event].time < 0)
        return false;
      time = std::max(time, events[need.event].time + need.behind);
    }
    time += event.own;
    const bool changed = event.time != time;
    event.time = time;
    return changed;
  }

  EventTimes times() const {
    EventTimes result;
    result.end.assign(program.size(), -1);
    result.met = result.done = result.end;
    for (size_t i = 0; i < statements.size(); ++i) {
      result.complete &= events[end(i)].time >= 0;
      std::fill(result.end.begin() + statements[i].first, result.end.begin() + statements[i].end,
                events[end(i)].time);
    }
    for (size_t r = 0; r < requests.size(); ++r) {
      result.met[requests[r].op] = events[met(r)].time;
      result.done[requests[r].op] = events[done(r)].time;
    }
    return result;
  }

  const Program &program;
  const CostModel &costs;
  const ChannelRules &rules;
  std::vector<Statement> statements;
  std::vector<Request> requests;
  std::vector<int64_t> waitFor; // per wait: the request
  std::vector<size_t> waitAt;   // per wait: its statement
  std::vector<Event> events;
};

} // namespace

int64_t EventTimes::makespan() const { return *std::max_element(end.begin(), end.end()); }

EventTimes eventTimes(const Program &program, const CostModel &costs, const ChannelRules &rules) {
  return Graph(program, costs, rules).solve();
}

} // namespace sluice::slow
