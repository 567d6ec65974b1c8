// Tables with one number changed: a slot, a version, a factor, an edge or a channel of a row.
#pragma once

#include "Passes/ExecutorTables.h"

#include <fmt/format.h>
#include <random>

namespace sluice::test {

struct Place {
  uint32_t *value;
  uint32_t count; ///< Values it may have.
};

/// The numbers of a row that name a slot, a version, a factor, a channel, or with `andEdges` a skip edge,
/// which says what a slot is for and is not read by who runs it.
inline std::vector<Place> placesOf(ExecutorTables &tables, DeviceTable &device, runtime::Instruction &row,
                                   uint32_t versions, bool andEdges) {
  std::vector<Place> places;
  auto add = [&](uint32_t &value, uint32_t count) {
    if (value != runtime::noSlot && count > 1)
      places.push_back({&value, count});
  };
  switch (row.op) {
  case runtime::Op::Weights:
    add(row.a, versions);
    break;
  case runtime::Op::Update:
    add(row.a, versions);
    add(row.b, versions);
    break;
  case runtime::Op::Carry:
    add(row.a, device.carries);
    break;
  case runtime::Op::Wait:
    if (runtime::isMessage(static_cast<runtime::Op>(row.b))) {
      add(row.a, device.boundaries);
    } else {
      add(row.c, device.saveds);
      add(row.d, device.hosts);
    }
    break;
  case runtime::Op::Offload:
  case runtime::Op::Reload:
    add(row.c, device.saveds);
    add(row.d, device.hosts);
    break;
  case runtime::Op::SkipInput:
  case runtime::Op::SkipOutput:
    add(row.a, device.boundaries);
    if (andEdges)
      add(row.b, static_cast<uint32_t>(tables.skips.size()));
    break;
  case runtime::Op::Scale:
  case runtime::Op::Factor:
    add(row.d, static_cast<uint32_t>(tables.factors.size()));
    break;
  case runtime::Op::ReduceTied:
    break;
  default:
    add(row.a, device.boundaries);
    if (!runtime::isMessage(row.op))
      add(row.b, device.boundaries);
    else
      add(row.b, static_cast<uint32_t>(tables.channels.size()));
    add(row.c, device.saveds);
    add(row.d, device.pendings);
    break;
  }
  return places;
}

inline uint32_t versionsOf(const ExecutorTables &tables, uint32_t stage, uint32_t device) {
  for (const runtime::Copy &copy : tables.copies)
    if (copy.stage == stage && copy.device == device)
      return copy.versions;
  return 1;
}

/// Changes one number of one row; what it did, in words. Empty where the row that it chose has none to
/// change.
inline std::string damage(ExecutorTables &tables, std::mt19937 &random, bool andEdges) {
  const auto number = static_cast<uint32_t>(random() % tables.devices.size());
  DeviceTable &device = tables.devices[number];
  if (device.rows.empty())
    return "";
  runtime::Instruction &row = device.rows[random() % device.rows.size()];
  const std::vector<Place> places =
      placesOf(tables, device, row, versionsOf(tables, row.stage, number), andEdges);
  if (places.empty())
    return "";
  const Place &place = places[random() % places.size()];
  const uint32_t before = *place.value;
  *place.value = static_cast<uint32_t>((before + 1 + random() % (place.count - 1)) % place.count);
  return fmt::format("device {} {}({}, {}) has {} for {}", number, name(row.op), row.stage, row.microbatch,
                     *place.value, before);
}

} // namespace sluice::test
