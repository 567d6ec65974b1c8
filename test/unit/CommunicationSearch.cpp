#include "CommunicationSearch.h"

#include <algorithm>
#include <deque>

namespace sluice::slow {

namespace {

/// Fills in what each event needs, one row of the table of events a function.
class Table {
public:
  Table(EventGraph &graph, const Posting &posting, const Blocking &blocking)
      : graph(graph), posting(posting), blocking(blocking) {}

  void fill() {
    for (uint32_t device = 0; device < posting.program.size(); ++device)
      for (uint32_t at = 0; at < posting.program[device].size(); ++at) {
        if (at > 0)
          need(begin(device, at), end(device, at - 1));
        fillEnd(device, at);
      }
    for (uint32_t place = 0; place < posting.places.size(); ++place) {
      fillReady(place);
      addOwnNeeds(place, done(place));
      if (blocking.atomicGroups && posting.places[place].action->kind != Action::Joint) {
        addNeedsOfGroup(place, done(place));
        if (blocking.depth == 0 && partner(place) != ~0u)
          addNeedsOfGroup(partner(place), done(place));
      }
    }
  }

private:
  uint32_t begin(uint32_t device, uint32_t at) const { return graph.beginOf[device][at]; }
  uint32_t end(uint32_t device, uint32_t at) const { return graph.beginOf[device][at] + 1; }
  uint32_t ready(uint32_t place) const { return graph.readyOf[place]; }
  uint32_t done(uint32_t place) const { return graph.readyOf[place] + 1; }
  void need(uint32_t event, uint32_t other) { graph.events[event].needs.push_back(other); }
  void never(uint32_t event) { graph.events[event].never = true; }

  /// The n-th of the other side for the n-th of this side.
  uint32_t partner(uint32_t place) const {
    const Posting::Place &here = posting.places[place];
    const Posting::Directed &direction = posting.directions[here.direction];
    return atOr(here.action->kind == Action::Send ? direction.receives : direction.sends, here.number);
  }
  static uint32_t atOr(const std::vector<uint32_t> &side, uint32_t number) {
    return number < side.size() ? side[number] : ~0u;
  }

  void fillEnd(uint32_t device, uint32_t at) {
    need(end(device, at), begin(device, at));
    const Statement &statement = posting.program[device][at];
    if (statement.kind == Statement::Post)
      for (uint32_t place : posting.of[device][at])
        need(end(device, at), done(place));
    if (statement.kind == Statement::Wait) {
      if (posting.waitsFor[device][at] == ~0u)
        never(end(device, at));
      else
        need(end(device, at), done(posting.waitsFor[device][at]));
    }
  }

  void fillReady(uint32_t place) {
    const Posting::Place &here = posting.places[place];
    need(ready(place), begin(here.device, here.statement));
    const std::vector<uint32_t> *before = nullptr;
    for (const std::vector<uint32_t> &posted : posting.ends[here.end])
      if (posting.places[posted.front()].statement < here.statement)
        before = &posted;
    if (before)
      for (uint32_t other : *before)
        need(ready(place), done(other));
    if (blocking.progressInWait && here.isStarted) {
      if (here.wait == ~0u)
        never(ready(place));
      else
        need(ready(place), begin(here.device, here.wait));
    }
  }

  /// What `place` itself must wait for to be done, written to `event`.
  void addOwnNeeds(uint32_t place, uint32_t event) {
    const Posting::Place &here = posting.places[place];
    if (here.action->kind == Action::Joint) {
      for (uint32_t member : posting.calls[here.direction])
        if (member == ~0u)
          never(event);
        else
          need(event, ready(member));
      return;
    }
    need(event, ready(place));
    const bool isSend = here.action->kind == Action::Send;
    if (blocking.depth == 0) {
      needPosted(event, partner(place), true);
    } else if (!isSend) {
      needPosted(event, partner(place), false);
    } else if (blocking.depth != Blocking::unbounded && here.number >= blocking.depth) {
      const auto &receives = posting.directions[here.direction].receives;
      needPosted(event, atOr(receives, here.number - blocking.depth), false);
    }
  }
  void needPosted(uint32_t event, uint32_t place, bool isReady) {
    if (place == ~0u)
      never(event);
    else
      need(event, isReady ? ready(place) : done(place));
  }

  void addNeedsOfGroup(uint32_t place, uint32_t event) {
    const Posting::Place &here = posting.places[place];
    for (uint32_t member : posting.of[here.device][here.statement])
      addOwnNeeds(member, event);
  }

  EventGraph &graph;
  const Posting &posting;
  const Blocking &blocking;
};

} // namespace

EventGraph::EventGraph(const Posting &posting, const Blocking &blocking) {
  auto addTwo = [this](uint32_t device, uint32_t statement) {
    events.resize(events.size() + 2, {device, statement, false, {}, false});
    return static_cast<uint32_t>(events.size() - 2);
  };
  for (uint32_t device = 0; device < posting.program.size(); ++device) {
    beginOf.emplace_back();
    for (uint32_t at = 0; at < posting.program[device].size(); ++at)
      beginOf.back().push_back(addTwo(device, at));
  }
  for (const Posting::Place &place : posting.places)
    readyOf.push_back(addTwo(place.device, place.statement));
  Table(*this, posting, blocking).fill();

  for (bool changed = true; changed;) {
    changed = false;
    for (Event &event : events)
      if (!event.happens && !event.never &&
          std::all_of(event.needs.begin(), event.needs.end(), [&](uint32_t n) { return events[n].happens; }))
        event.happens = changed = true;
  }
}

uint32_t EventGraph::stands(uint32_t device) const {
  uint32_t at = 0;
  while (at < beginOf[device].size() && events[beginOf[device][at] + 1].happens)
    ++at;
  return at;
}

std::optional<uint32_t> EventGraph::fewestHops() const {
  std::vector<uint32_t> front;
  for (uint32_t device = 0; device < beginOf.size(); ++device)
    front.push_back(stands(device));
  auto isAhead = [&](const Event &event) { return event.statement > front[event.device]; };

  std::optional<uint32_t> fewest;
  std::vector<uint32_t> distance, standsAt(1);
  for (uint32_t from = 0; from < events.size(); ++from) {
    if (events[from].happens || isAhead(events[from]))
      continue;
    // Edges of length 0 to the front of the line, of length 1 to its back.
    distance.assign(events.size(), ~0u);
    std::deque<std::pair<uint32_t, uint32_t>> line = {{from, 0}}; // `distance` stays open for the way back
    while (!line.empty()) {
      auto [number, hops] = line.front();
      line.pop_front();
      const Event &event = events[number];
      if (hops > distance[number])
        continue;
      if (isAhead(event))
        standsAt[0] = beginOf[event.device][front[event.device]] + 1;
      for (uint32_t other : isAhead(event) ? standsAt : event.needs) {
        const uint32_t step = events[other].device != event.device;
        if (events[other].happens || hops + step >= distance[other])
          continue;
        distance[other] = hops + step;
        if (step)
          line.push_back({other, hops + step});
        else
          line.push_front({other, hops + step});
      }
    }
    if (distance[from] != ~0u)
      fewest = std::min(fewest.value_or(~0u), distance[from]);
  }
  return fewest;
}

} // namespace sluice::slow
