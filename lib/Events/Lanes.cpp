#include "Events/Lanes.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <limits>
#include <tuple>

namespace sluice {

bool Lanes::Event::operator>(const Event &other) const {
  const bool isJoin = version == joins, isOtherJoin = other.version == joins;
  return std::tie(time, isJoin, key, lane) > std::tie(other.time, isOtherJoin, other.key, other.lane);
}

bool Lanes::Member::operator>(const Member &other) const {
  return std::tie(target, key) > std::tie(other.target, other.key);
}

Lanes::Lanes(const CostModel &costs) : lanes(costs.laneCount) {
  for (const auto *routes : {&costs.routes, &costs.hostRoutes})
    for (const Route &route : *routes)
      if (route.lane != noLane)
        lanes[route.lane].sharing = costs.links[route.link].sharing;
}

int64_t Lanes::plus(int64_t a, int64_t b) {
  int64_t sum;
  if (!__builtin_add_overflow(a, b, &sum))
    return sum;
  overflowed = true;
  return std::numeric_limits<int64_t>::max();
}

void Lanes::push(const Event &event) {
  events.push_back(event);
  std::push_heap(events.begin(), events.end(), std::greater<>());
}

void Lanes::join(uint32_t lane, int64_t time, int64_t service, uint64_t key) {
  ++open;
  push({time, key, service, lane, joins});
}

std::optional<Lanes::Served> Lanes::advance() {
  while (true) {
    assert(!events.empty());
    std::pop_heap(events.begin(), events.end(), std::greater<>());
    const Event event = events.back();
    events.pop_back();
    Lane &lane = lanes[event.lane];
    std::optional<Served> served;
    if (event.version == joins)
      served = lane.sharing == Sharing::Fair ? share(lane, event) : serve(lane, event);
    else if (event.version == lane.version)
      served = leave(lane, event);
    else
      continue; // another has joined since
    open -= served.has_value();
    return served;
  }
}

/// The next in line.
Lanes::Served Lanes::serve(Lane &lane, const Event &event) {
  const int64_t begin = std::max(event.time, lane.last);
  lane.last = plus(begin, event.service);
  return {event.key, begin, lane.last};
}

/// Joins those that go on at once. What none of them has had a whole unit of is lost to all. A transfer
/// without service never joins, so it delays nobody.
std::optional<Lanes::Served> Lanes::share(Lane &lane, const Event &event) {
  if (event.service == 0)
    return Served{event.key, event.time, event.time};
  if (!lane.members.empty())
    lane.served += (event.time - lane.last) / static_cast<int64_t>(lane.members.size());
  lane.last = event.time;
  lane.members.push_back({plus(lane.served, event.service), event.key, event.time});
  std::push_heap(lane.members.begin(), lane.members.end(), std::greater<>());
  schedule(lane, event.lane);
  return std::nullopt;
}

Lanes::Served Lanes::leave(Lane &lane, const Event &event) {
  std::pop_heap(lane.members.begin(), lane.members.end(), std::greater<>());
  const Member member = lane.members.back();
  lane.members.pop_back();
  lane.served = member.target;
  lane.last = event.time;
  schedule(lane, event.lane);
  return {member.key, member.begin, event.time};
}

/// When the next one leaves if no other joins before.
void Lanes::schedule(Lane &lane, uint32_t number) {
  ++lane.version;
  if (lane.members.empty())
    return;
  const Member &first = lane.members.front();
  int64_t left = 0;
  if (__builtin_mul_overflow(first.target - lane.served, static_cast<int64_t>(lane.members.size()), &left))
    overflowed = true;
  push({plus(lane.last, left), first.key, 0, number, lane.version});
}

} // namespace sluice
