// Tables with one number changed: the interpreter must notice nearly all of them, or it proves little.
#include "Compiled.h"
#include "Forms.h"
#include "TableMachine.h"

#include "Events/Completion.h"
#include "Passes/AssignSlots.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <random>

using namespace sluice;
using namespace sluice::test;
using RuntimeOp = runtime::Op;

namespace {

struct Place {
  uint32_t *value;
  uint32_t count; ///< Values it may have.
};

/// The numbers of a row that name a slot, a version, a factor, an edge or a channel.
std::vector<Place> placesOf(ExecutorTables &tables, DeviceTable &device, runtime::Instruction &row,
                            uint32_t versions) {
  std::vector<Place> places;
  auto add = [&](uint32_t &value, uint32_t count) {
    if (value != runtime::noSlot && count > 1)
      places.push_back({&value, count});
  };
  switch (row.op) {
  case RuntimeOp::Weights:
    add(row.a, versions);
    break;
  case RuntimeOp::Update:
    add(row.a, versions);
    add(row.b, versions);
    break;
  case RuntimeOp::Carry:
    add(row.a, device.carries);
    break;
  case RuntimeOp::Wait:
    if (runtime::isMessage(static_cast<RuntimeOp>(row.b))) {
      add(row.a, device.boundaries);
    } else {
      add(row.c, device.saveds);
      add(row.d, device.hosts);
    }
    break;
  case RuntimeOp::Offload:
  case RuntimeOp::Reload:
    add(row.c, device.saveds);
    add(row.d, device.hosts);
    break;
  case RuntimeOp::SkipInput:
  case RuntimeOp::SkipOutput:
    add(row.a, device.boundaries);
    add(row.b, static_cast<uint32_t>(tables.skips.size()));
    break;
  case RuntimeOp::Scale:
  case RuntimeOp::Factor:
    add(row.d, static_cast<uint32_t>(tables.factors.size()));
    break;
  case RuntimeOp::ReduceTied:
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

uint32_t versionsOf(const ExecutorTables &tables, uint32_t stage, uint32_t device) {
  for (const runtime::Copy &copy : tables.copies)
    if (copy.stage == stage && copy.device == device)
      return copy.versions;
  return 1;
}

struct Tally {
  unsigned tried = 0, caught = 0;
  std::string missed;
};

void damage(const CompiledSchedule &schedule, unsigned turns, std::mt19937 &random, Tally &tally) {
  const std::optional<ExecutorTables> original = assignSlots(schedule.program, schedule.costs);
  ASSERT_TRUE(original);
  MachineOptions options;
  options.model = runtime::ChannelModel::unbounded;
  options.steps = 3;
  options.waitsLazily = !schedule.program.isExplicit && schedule.costs.communication != "just_in_time";
  options.readsNewest = schedule.program.versions == VersionRule::Newest;
  for (const Op &op : schedule.program.ops)
    options.keepsUsed |= op.kind == OpKind::Zero || op.overwrites();
  if (!schedule.costs.asynchronous)
    options.wanted = [&](uint32_t, uint32_t, uint32_t unit) { return wantedFactor(schedule, unit); };
  for (unsigned turn = 0; turn < turns; ++turn) {
    ExecutorTables damaged = *original;
    const auto number = static_cast<uint32_t>(random() % damaged.devices.size());
    DeviceTable &device = damaged.devices[number];
    if (device.rows.empty())
      continue;
    runtime::Instruction &row = device.rows[random() % device.rows.size()];
    const std::vector<Place> places = placesOf(damaged, device, row, versionsOf(damaged, row.stage, number));
    if (places.empty())
      continue;
    const Place &place = places[random() % places.size()];
    const uint32_t before = *place.value;
    *place.value = static_cast<uint32_t>((before + 1 + random() % (place.count - 1)) % place.count);
    ++tally.tried;
    try {
      runTables(damaged, options);
      tally.missed += fmt::format("{}: device {} {}({}, {}) has {} for {}\n", schedule.name, number,
                                  name(row.op), row.stage, row.microbatch, *place.value, before);
    } catch (const TableFault &) {
      ++tally.caught;
    }
  }
}

} // namespace

TEST(TableMutations, OfFormsAreCaught) {
  std::mt19937 random(11);
  Tally tally;
  for (const Form &form : forms)
    for (const CompiledSchedule &schedule : compileSchedules(form.text, {}))
      damage(schedule, 150, random, tally);
  EXPECT_GE(tally.tried, 2000u);
  EXPECT_GE(tally.caught * 100, tally.tried * 99) << tally.missed;
  std::cout << tally.caught << " of " << tally.tried << " caught; missed:\n" << tally.missed;
}

TEST(TableMutations, OfTheLibraryAreCaught) {
  std::mt19937 random(12);
  Tally tally;
  for (const CompiledSchedule &schedule : librarySchedules(4))
    damage(schedule, 6, random, tally);
  EXPECT_GE(tally.tried, 1000u);
  EXPECT_GE(tally.caught * 100, tally.tried * 99) << tally.missed;
  std::cout << tally.caught << " of " << tally.tried << " caught; missed:\n" << tally.missed;
}
