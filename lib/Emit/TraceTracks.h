// The tracks of a trace: which resource each slice is drawn on, and how many rows that takes. Private to
// lib/Emit.
#pragma once

#include "Emit/Part.h"
#include "Emit/UnderWay.h"

namespace sluice {

/// Numbers of tracks are unique over the file, since viewers tell threads apart by them.
struct TraceTrack {
  uint64_t id;
  std::string name;
};

class TraceTracks {
public:
  /// Tracks of the part of `schedule` that is shown, numbered from `firstId` on.
  TraceTracks(const TimedSchedule &schedule, const Part &part, uint64_t firstId);

  /// In the order to show.
  llvm::ArrayRef<TraceTrack> all() const { return tracks; }
  /// The track of a device's program.
  uint64_t ofDevice(uint32_t device) const { return deviceTrack[device - firstDevice]; }

  struct Placed {
    UnderWay item;
    uint64_t track; ///< 0: none, since it takes no time.
  };
  /// What is under way, resource by resource in the order of time. Nothing on a track overlaps.
  llvm::ArrayRef<Placed> placed() const { return items; }

private:
  /// What takes its turn, or could: items of one resource are shown together.
  struct Resource {
    uint32_t order; ///< 0: collectives or host of a device, 1: a lane, 2: a pair of devices.
    uint32_t first, second;
    friend auto operator<=>(const Resource &, const Resource &) = default;
  };
  static constexpr uint32_t untimed = 3;
  Resource resourceOf(const UnderWay &item) const;
  std::string nameOf(const Resource &resource, uint32_t link) const;
  void addResource(llvm::MutableArrayRef<Placed> group);
  void addTrack(std::string name) { tracks.push_back({firstId + tracks.size(), std::move(name)}); }

  const TimedSchedule &schedule;
  uint64_t firstId;
  uint32_t firstDevice;
  std::vector<TraceTrack> tracks;
  std::vector<uint64_t> deviceTrack;
  std::vector<Placed> items;
};

} // namespace sluice
