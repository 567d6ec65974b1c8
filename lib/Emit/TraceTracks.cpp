#include "Emit/TraceTracks.h"

#include "Emit/Packing.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

TraceTracks::TraceTracks(const TimedSchedule &schedule, const Part &part, uint64_t firstId)
    : schedule(schedule), firstId(firstId), firstDevice(part.firstDevice) {
  for (const UnderWay &item : underWay(schedule))
    if (part.meets(item.begin, item.end) &&
        (part.has(item.device) || (item.to != noDevice && part.has(item.to))))
      items.push_back({item, 0});
  auto earlier = [&](const Placed &a, const Placed &b) {
    const Resource left = resourceOf(a.item), right = resourceOf(b.item);
    return left != right ? left < right : a.item.begin < b.item.begin;
  };
  if (!llvm::is_sorted(items, earlier))
    llvm::stable_sort(items, earlier);

  // Beside each device its collectives and its host, then the messages.
  auto group = llvm::MutableArrayRef(items);
  auto takeWhile = [&](auto holds) {
    while (!group.empty() && holds(resourceOf(group.front().item))) {
      const Resource resource = resourceOf(group.front().item);
      const auto same = group.take_while([&](Placed &p) { return resourceOf(p.item) == resource; });
      addResource(same);
      group = group.drop_front(same.size());
    }
  };
  for (uint32_t device = part.firstDevice; device < part.deviceEnd; ++device) {
    deviceTrack.push_back(firstId + tracks.size());
    addTrack(fmt::format("device {}", device));
    takeWhile([&](const Resource &next) { return next.order == 0 && next.first == device; });
  }
  takeWhile([](const Resource &) { return true; });
}

TraceTracks::Resource TraceTracks::resourceOf(const UnderWay &item) const {
  if (item.begin == item.end)
    return {untimed, 0, 0};
  if (item.kind != UnderWay::Kind::Message)
    return {0, item.device, item.kind == UnderWay::Kind::Host};
  return item.lane != noLane ? Resource{1, item.lane, item.link} : Resource{2, item.device, item.to};
}

std::string TraceTracks::nameOf(const Resource &resource, uint32_t link) const {
  const std::string kind = link == noLink ? "messages" : schedule.costs.links[link].name;
  switch (resource.order) {
  case 0:
    return fmt::format("device {} {}", resource.first, resource.second ? "host" : "collectives");
  case 1:
    return fmt::format("{}, lane {}", kind, resource.first);
  default:
    return fmt::format("{}, device {} -> {}", kind, resource.first, resource.second);
  }
}

void TraceTracks::addResource(llvm::MutableArrayRef<Placed> group) {
  if (resourceOf(group.front().item).order == untimed)
    return;
  Packing packing;
  const uint64_t first = firstId + tracks.size();
  for (Placed &placed : group)
    placed.track = first + packing.place(placed.item.begin, placed.item.end);
  const std::string name = nameOf(resourceOf(group.front().item), group.front().item.link);
  for (unsigned row = 0; row < packing.rows(); ++row)
    addTrack(row == 0 ? name : fmt::format("{} ({})", name, row + 1));
}

} // namespace sluice
