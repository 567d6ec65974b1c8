// The judges of what blocks, held against each other, and what docs/language.md claims of channels held
// against them: one end whatever the order of events, deeper channels, finer keys and groups that never hurt,
// and inserted communication that sticks only if the order of the data does.
#include "CommunicationSearch.h"
#include "ExplicitPrograms.h"
#include "Passes/LowerCommunication.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>

namespace sluice::slow {
namespace {

TEST(CommunicationJudge, EveryWayEndsWhereTheTableSays) {
  size_t stuck = 0, complete = 0, cycles = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    const Program program = randomCommunication(seed);
    const ExplicitProgram statements = machineProgram(program);
    for (int i = 0; i < 4; ++i) {
      const Blocking blocking = randomBlocking(random);
      const Posting posting(statements, blocking);
      const Outcome outcome = runEveryWay(posting, blocking, 100'000);
      if (outcome.tooLarge)
        continue;
      const EventGraph graph(posting, blocking);
      SCOPED_TRACE(str(blocking) + "\n" + describe(program));
      ASSERT_EQ(outcome.finals, 1u);
      for (uint32_t place = 0; place < posting.places.size(); ++place)
        ASSERT_EQ(outcome.done[place], graph.isDone(place)) << "action " << place;
      for (uint32_t device = 0; device < program.devices; ++device)
        ASSERT_EQ(outcome.stands[device], graph.stands(device)) << "device " << device;
      const std::optional<uint32_t> hops = graph.fewestHops();
      ASSERT_FALSE(outcome.completes && hops);
      ++(outcome.completes ? complete : stuck);
      cycles += hops.has_value();
    }
  }
  EXPECT_GT(complete, 3000u);
  EXPECT_GT(stuck, 3000u);
  EXPECT_GT(cycles, 2000u);
}

/// Done actions of the table, by tag and kind of event; connections have no tag.
std::vector<bool> doneOps(const Program &program, const Blocking &blocking) {
  const Posting posting(machineProgram(program), blocking);
  const EventGraph graph(posting, blocking);
  std::vector<bool> done(program.size(), false);
  for (uint32_t place = 0; place < posting.places.size(); ++place)
    if (const uint32_t op = posting.places[place].action->tag; op != ~0u)
      done[op] = graph.isDone(place);
  return done;
}

bool completes(const Program &program, const Blocking &blocking) {
  const Posting posting(machineProgram(program), blocking);
  const EventGraph graph(posting, blocking);
  for (uint32_t device = 0; device < program.devices; ++device)
    if (graph.stands(device) != posting.program[device].size())
      return false;
  return true;
}

TEST(CommunicationJudge, DeeperChannelsNeverHurt) {
  size_t gained = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    const Program program = randomCommunication(seed);
    Blocking blocking = randomBlocking(random);
    blocking.atomicGroups = blocking.progressInWait = false;
    std::vector<bool> before(program.size(), false);
    for (uint32_t depth : {0u, 1u, 2u, 3u, Blocking::unbounded}) {
      blocking.depth = depth;
      const std::vector<bool> done = doneOps(program, blocking);
      for (OpId op = 0; op < program.size(); ++op) {
        ASSERT_LE(before[op], done[op]) << str(blocking) << "\nop " << op << " of\n" << describe(program);
        gained += depth != 0 && before[op] != done[op];
      }
      before = done;
    }
  }
  EXPECT_GT(gained, 100u);
}

bool pairsRight(const Posting &posting) {
  return std::all_of(posting.directions.begin(), posting.directions.end(), [&](const auto &direction) {
    return direction.sends.size() == direction.receives.size() &&
           std::equal(direction.sends.begin(), direction.sends.end(), direction.receives.begin(),
                      [&](uint32_t send, uint32_t receive) {
                        return posting.places[send].action->carried ==
                               posting.places[receive].action->carried;
                      });
  });
}

TEST(CommunicationJudge, FinerKeysNeverHurtWherePairsAreRight) {
  size_t compared = 0, gained = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    Random random(seed);
    const Program program = randomCommunication(seed);
    Blocking blocking = randomBlocking(random);
    std::optional<bool> coarser;
    for (Blocking::Key key : {Blocking::Pair, Blocking::Direction, Blocking::Edge, Blocking::Message}) {
      blocking.key = key;
      if (!pairsRight(Posting(machineProgram(program), blocking))) {
        coarser.reset();
        continue;
      }
      const bool isFree = completes(program, blocking);
      if (coarser) {
        ASSERT_LE(*coarser, isFree) << str(blocking) << "\n" << describe(program);
        ++compared;
        gained += *coarser != isFree;
      }
      coarser = isFree;
    }
  }
  EXPECT_GT(compared, 2000u);
  EXPECT_GT(gained, 10u);
}

/// Random neighbours among the sends and receives of each device made one group, blocking ones alone.
Program withMoreGroups(const Program &program, Random &random) {
  DeviceOps devices = devicesOf(program);
  for (std::vector<Op> &ops : devices)
    for (size_t i = 1; i < ops.size(); ++i) {
      auto isPlain = [&](const Op &op) { return op.isCommunication() && !op.isStarted() && !op.isWait(); };
      if (!isPlain(ops[i - 1]) || !isPlain(ops[i]) || ops[i].has(GroupFollower) || !random.chance(40))
        continue;
      if (!ops[i - 1].has(GroupFollower))
        ops[i - 1].flags |= GroupFirst;
      ops[i].flags = static_cast<uint8_t>((ops[i].flags & ~GroupFirst) | GroupFollower);
    }
  return withDevices(program, devices);
}

TEST(CommunicationJudge, GroupingNeighboursNeverHurts) {
  size_t gained = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    Random random(seed);
    const Program program = randomCommunication(seed), grouped = withMoreGroups(program, random);
    Blocking blocking = randomBlocking(random);
    blocking.atomicGroups = false;
    blocking.connectsOnFirstUse = false; // a group connects for its later members early: that can hurt
    const bool before = completes(program, blocking), after = completes(grouped, blocking);
    ASSERT_LE(before, after) << str(blocking) << "\n"
                             << describe(program) << "grouped\n"
                             << describe(grouped);
    gained += before != after;
  }
  EXPECT_GT(gained, 50u);
}

/// Compute ops in the order of one random execution, with a few swapped; each device's own order is right.
struct ComputeOrder {
  PlacementRows rows;
  DeviceOps devices;
};

/// Ops that must have run before `op`.
std::vector<Op> needsOf(const Op &op, uint32_t stages) {
  std::vector<Op> needs;
  auto add = [&](OpKind kind, uint32_t stage) {
    needs.push_back({kind, 0, static_cast<uint16_t>(stage), op.microbatch});
  };
  if (op.kind == OpKind::Forward) {
    if (op.stage > 0)
      add(OpKind::Forward, op.stage - 1u);
    return needs;
  }
  add(OpKind::Forward, op.stage);
  if (op.stage + 1u < stages)
    add(OpKind::Backward, op.stage + 1u);
  return needs;
}

bool hasRun(const std::vector<Op> &ran, const Op &op) {
  return std::find(ran.begin(), ran.end(), op) != ran.end();
}

std::optional<ComputeOrder> randomComputeOrder(Random &random) {
  ComputeOrder order;
  const uint32_t devices = 2 + random.below(3), stages = devices + random.below(3),
                 microbatches = 1 + random.below(4);
  order.rows.assign(microbatches, std::vector<uint32_t>(stages));
  const bool isRandom = random.chance(50);
  for (uint32_t s = 0; s < stages; ++s) {
    const uint32_t device = isRandom ? random.below(devices) : s % devices;
    for (std::vector<uint32_t> &row : order.rows)
      row[s] = device;
  }
  std::vector<Op> left, ran;
  for (uint32_t s = 0; s < stages; ++s)
    for (uint32_t m = 0; m < microbatches; ++m)
      for (OpKind kind : {OpKind::Forward, OpKind::Backward})
        left.push_back({kind, 0, static_cast<uint16_t>(s), m});
  order.devices.resize(devices);
  while (!left.empty()) {
    const size_t chosen = random.below(static_cast<uint32_t>(left.size()));
    const std::vector<Op> needs = needsOf(left[chosen], stages);
    if (!std::all_of(needs.begin(), needs.end(), [&](const Op &op) { return hasRun(ran, op); }))
      continue;
    ran.push_back(left[chosen]);
    order.devices[order.rows[ran.back().microbatch][ran.back().stage]].push_back(ran.back());
    left.erase(left.begin() + static_cast<ptrdiff_t>(chosen));
  }
  for (uint32_t swaps = random.below(4); swaps > 0; --swaps) {
    std::vector<Op> &ops = order.devices[random.below(devices)];
    if (ops.size() > 1)
      std::swap(ops[random.below(static_cast<uint32_t>(ops.size()))],
                ops[random.below(static_cast<uint32_t>(ops.size()))]);
  }
  for (uint32_t device = 0; device < devices; ++device)
    for (size_t i = 0; i < order.devices[device].size(); ++i)
      for (const Op &need : needsOf(order.devices[device][i], stages)) {
        const std::vector<Op> before(order.devices[device].begin(),
                                     order.devices[device].begin() + static_cast<ptrdiff_t>(i));
        if (order.rows[need.microbatch][need.stage] == device && !hasRun(before, need))
          return std::nullopt; // hands over to itself in the wrong order
      }
  return order;
}

bool isCyclic(const ComputeOrder &order) {
  std::vector<Op> ran;
  std::vector<size_t> at(order.devices.size());
  size_t count = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t device = 0; device < at.size(); ++device)
      while (at[device] < order.devices[device].size()) {
        const Op &op = order.devices[device][at[device]];
        const std::vector<Op> needs = needsOf(op, static_cast<uint32_t>(order.rows.front().size()));
        if (!std::all_of(needs.begin(), needs.end(), [&](const Op &need) { return hasRun(ran, need); }))
          break;
        ran.push_back(op);
        ++at[device];
        moved = true;
      }
  }
  for (const std::vector<Op> &ops : order.devices)
    count += ops.size();
  return ran.size() != count;
}

TEST(CommunicationJudge, InsertedCommunicationSticksOnlyIfTheDataDoes) {
  size_t cyclic = 0, acyclic = 0, lateSticks = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    const std::optional<ComputeOrder> order = randomComputeOrder(random);
    if (!order)
      continue;
    Program program = explicitProgram(order->rows, order->devices);
    program.isExplicit = false;
    const ProgramIndex index(program);
    const bool isStuck = isCyclic(*order);
    ++(isStuck ? cyclic : acyclic);
    SCOPED_TRACE(describe(program));
    const auto early = lowerCommunication(program, index, CommunicationPlacement::Early);
    const auto late = lowerCommunication(program, index, CommunicationPlacement::JustInTime);
    ASSERT_EQ(early.has_value(), !isStuck);
    ASSERT_TRUE(late.has_value());
    for (Blocking::Key key : {Blocking::Direction, Blocking::Pair, Blocking::Edge, Blocking::Message}) {
      Blocking blocking;
      blocking.key = key;
      blocking.depth = Blocking::unbounded;
      ASSERT_EQ(completes(*late, blocking), !isStuck) << str(blocking) << "\n" << describe(*late);
      ASSERT_TRUE(pairsRight(Posting(machineProgram(*late), blocking)));
      if (!early)
        continue;
      ASSERT_TRUE(pairsRight(Posting(machineProgram(*early), blocking)));
      for (uint32_t depth : {0u, 1u, 2u, Blocking::unbounded}) {
        blocking.depth = depth;
        ASSERT_TRUE(completes(*early, blocking)) << str(blocking) << "\n" << describe(*early);
        lateSticks += !completes(*late, blocking);
      }
    }
  }
  EXPECT_GT(cyclic, 200u);
  EXPECT_GT(acyclic, 500u);
  EXPECT_GT(lateSticks, 50u);
}

} // namespace
} // namespace sluice::slow
