#include "SlowClock.h"

#include <algorithm>
#include <map>

namespace sluice::slow {

void Clock::run() {
  neededBy.assign(events.size(), {});
  missing.assign(events.size(), 0);
  for (size_t i = 0; i < events.size(); ++i) {
    for (size_t need : events[i].needs)
      neededBy[need].push_back(i);
    missing[i] = events[i].needs.size() + events[i].never;
  }
  for (const Passage &passage : passages)
    if (passage.lane != noLane)
      lanes.resize(std::max<size_t>(lanes.size(), passage.lane + 1));
  auto arise = [&](size_t i) {
    Event &event = events[i];
    event.ready = 0;
    for (size_t need : event.needs)
      event.ready = std::max(event.ready, events[need].time);
    if (event.passage < 0)
      due.insert({event.ready + event.own, Due::Happens, 0, 0, i});
    else
      due.insert({event.ready, Due::Joins, passages[event.passage].sender, passages[event.passage].stage, i});
  };
  for (size_t i = 0; i < events.size(); ++i)
    if (missing[i] == 0)
      arise(i);
  while (!due.empty()) {
    const Due next = *due.begin();
    due.erase(due.begin());
    if (next.kind == Due::Joins) {
      join(next.event, next.time);
    } else if (next.kind == Due::Leaves) {
      leave(next.event, next.time);
    } else {
      events[next.event].time = next.time;
      for (size_t i : neededBy[next.event])
        if (--missing[i] == 0)
          arise(i);
    }
  }
}

void Clock::join(size_t event, int64_t now) {
  Passage &passage = passages[static_cast<size_t>(events[event].passage)];
  passage.begin = now;
  int64_t served = now + passage.service;
  if (passage.sharing == Sharing::Fifo) {
    Lane &lane = lanes[passage.lane];
    passage.begin = std::max(now, lane.free);
    served = lane.free = passage.begin + passage.service;
  } else if (passage.sharing == Sharing::Fair && passage.service > 0) {
    Lane &lane = lanes[passage.lane];
    if (!lane.targets.empty())
      lane.served += (now - lane.counted) / static_cast<int64_t>(lane.targets.size());
    lane.counted = now;
    lane.targets.emplace_back(lane.served + passage.service, event);
    expectLeave(passage.lane);
    return;
  }
  due.insert({served + passage.latency, Due::Happens, 0, 0, event});
}

void Clock::expectLeave(size_t number) {
  std::erase_if(due, [&](const Due &other) { return other.kind == Due::Leaves && other.event == number; });
  const Lane &lane = lanes[number];
  if (lane.targets.empty())
    return;
  const int64_t first = std::min_element(lane.targets.begin(), lane.targets.end())->first;
  due.insert({lane.counted + (first - lane.served) * static_cast<int64_t>(lane.targets.size()), Due::Leaves,
              0, 0, number});
}

void Clock::leave(size_t number, int64_t now) {
  Lane &lane = lanes[number];
  const auto first = std::min_element(lane.targets.begin(), lane.targets.end());
  lane.served = first->first;
  lane.counted = now;
  const size_t event = first->second;
  lane.targets.erase(first);
  expectLeave(number);
  due.insert({now + passages[static_cast<size_t>(events[event].passage)].latency, Due::Happens, 0, 0, event});
}

std::vector<size_t> Clock::binding(const Event &event) const {
  std::vector<size_t> latest;
  for (size_t need : event.needs)
    if (events[need].time == event.ready)
      latest.push_back(need);
  return latest;
}

int64_t Clock::underWaySince(int64_t from, size_t last) const {
  int64_t sum = 0;
  uint32_t device = events[last].device;
  for (const Event *event = &events[last];;) {
    if (event->isUnderWay)
      sum += std::max<int64_t>(0, event->time - std::max(from, event->ready));
    const std::vector<size_t> needs = binding(*event);
    if (event->ready <= from || needs.empty())
      return sum;
    auto rank = [&](size_t need) { return std::pair(events[need].device != device, events[need].device); };
    event = &events[*std::min_element(needs.begin(), needs.end(),
                                      [&](size_t a, size_t b) { return rank(a) < rank(b); })];
    if (event->device != noDevice)
      device = event->device;
  }
}

std::pair<int64_t, int64_t> Clock::underWayRange(int64_t from, size_t last) const {
  std::map<size_t, std::pair<int64_t, int64_t>> known;
  auto range = [&](auto &self, size_t i) -> std::pair<int64_t, int64_t> {
    if (auto found = known.find(i); found != known.end())
      return found->second;
    const Event &event = events[i];
    const int64_t own = event.isUnderWay ? std::max<int64_t>(0, event.time - std::max(from, event.ready)) : 0;
    std::pair<int64_t, int64_t> result = {0, 0};
    if (event.ready > from) {
      bool isFirst = true;
      for (size_t need : binding(event)) {
        const auto part = self(self, need);
        result.first = isFirst ? part.first : std::min(result.first, part.first);
        result.second = std::max(result.second, part.second);
        isFirst = false;
      }
    }
    return known[i] = {result.first + own, result.second + own};
  };
  return range(range, last);
}

} // namespace sluice::slow
