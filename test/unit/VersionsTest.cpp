// Versions of weights against a slow reading of their definition, which looks at every op of a copy again
// for every question.
#include "IR/Versions.h"

#include "RandomOrder.h"
#include "Timeline/Memory.h"
#include "Verify/Verify.h"

#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::slow;

namespace {

struct RandomVersions {
  Program program;
  CostModel costs;
};

/// An asynchronous program of random updates; some forwards name a version that may be wrong.
RandomVersions randomVersions(uint64_t seed) {
  Random random(seed);
  RandomOrder order = randomOrder(random, 1);
  ScheduleBuilder builder("versions", order.sizes);
  builder.place([&](Stage s, Microbatch) { return order.deviceOf[s]; });
  const auto rule = static_cast<VersionRule>(random.below(3));
  builder.versions(rule, rule == VersionRule::Stashed && random.chance(50) ? 1 + random.below(3) : 0);
  const bool names = random.chance(40);
  for (uint32_t device = 0; device < order.sizes.devices; ++device)
    builder.program(device, [&](DeviceProgram &program) {
      std::vector<unsigned> pending(order.sizes.stages), updates(order.sizes.stages);
      for (const Op &op : order.devices[device]) {
        if (op.kind == OpKind::Forward && names && random.chance(50))
          program.forward(op.stage, op.microbatch,
                          Version(random.below(updates[op.stage] + 1 + random.chance(5))));
        else
          write(program, op);
        pending[op.stage] += op.kind == OpKind::Backward || op.kind == OpKind::BackwardWeight;
        if (pending[op.stage] == 0 || !random.chance(60))
          continue;
        program.update(op.stage);
        ++updates[op.stage];
        pending[op.stage] = 0;
      }
      for (uint32_t s = 0; s < order.sizes.stages; ++s)
        if (pending[s] > 0)
          program.update(s);
    });
  RandomVersions result{builder.build(), CostModel::ofTicks(order.sizes.stages)};
  result.costs.asynchronous = true;
  if (random.chance(70))
    result.costs.stalenessBound = random.below(3);
  return result;
}

/// All that happens to one copy of a stage, in order.
struct SlowCopy {
  const Program &program;
  std::vector<OpId> ops;

  const Op &op(size_t i) const { return program.ops[ops[i]]; }
  uint32_t updatesBefore(size_t i) const {
    uint32_t count = 0;
    for (size_t j = 0; j < i; ++j)
      count += op(j).kind == OpKind::Update;
    return count;
  }
  /// As the forward says, made or not.
  uint32_t named(size_t i) const {
    for (const NamedVersion &named : program.namedVersions)
      if (named.op == ops[i])
        return named.version;
    return updatesBefore(i);
  }
  size_t forwardOf(size_t i) const {
    for (size_t j = 0; j < ops.size(); ++j)
      if (op(j).kind == OpKind::Forward && op(j).microbatch == op(i).microbatch)
        return j;
    return i;
  }
  uint32_t readByForward(size_t i) const {
    const size_t forward = forwardOf(i);
    return std::min(named(forward), updatesBefore(forward));
  }
  bool isBackward(size_t i) const { return plainKind(op(i).kind) == OpKind::Backward; }
  bool contributes(size_t i) const {
    return op(i).kind == OpKind::Backward || op(i).kind == OpKind::BackwardWeight;
  }
  /// The version that a forward, a backward or an input half reads; of others nothing.
  std::optional<uint32_t> reads(size_t i) const {
    if (op(i).kind == OpKind::Forward)
      return named(i);
    if (!isBackward(i))
      return std::nullopt;
    if (program.versions == VersionRule::Newest)
      return updatesBefore(i);
    if (program.versions == VersionRule::Stashed)
      return readByForward(i);
    size_t pops = 0; // those before this one
    for (size_t j = 0; j < i; ++j)
      pops += isBackward(j);
    for (size_t j = 0; j < ops.size(); ++j)
      if (op(j).kind == OpKind::Forward && pops-- == 0)
        return readByForward(j);
    return std::nullopt;
  }
  /// Versions needed behind the op at `i`.
  std::set<uint32_t> keptBehind(size_t i) const {
    const uint32_t newest = updatesBefore(i + 1);
    std::set<uint32_t> kept = {newest};
    for (size_t j = i + 1; j < ops.size() && program.versions != VersionRule::Newest; ++j)
      if (auto version = reads(j); version && *version <= newest)
        kept.insert(*version);
    return kept;
  }
  uint32_t staleness(size_t update) const {
    uint32_t most = 0;
    for (size_t j = update; j-- > 0 && op(j).kind != OpKind::Update;)
      if (contributes(j))
        most = std::max(most, updatesBefore(update) - readByForward(j));
    return most;
  }
  /// Of the rules that fail the one that is reported; 0: none.
  unsigned firstCause(std::optional<int64_t> bound) const {
    std::set<unsigned> failing;
    for (size_t i = 0; i < ops.size(); ++i) {
      if (op(i).kind == OpKind::Forward &&
          (named(i) > updatesBefore(i) ||
           (program.versions == VersionRule::Newest && named(i) < updatesBefore(i))))
        failing.insert(601);
      if (isBackward(i) && reads(i) != readByForward(i))
        failing.insert(program.versions == VersionRule::Queued ? 603 : 602);
      if (op(i).kind != OpKind::Update)
        continue;
      if (bound && staleness(i) > *bound)
        failing.insert(604);
      if (program.mostVersions > 0 && keptBehind(i).size() > program.mostVersions)
        failing.insert(601);
    }
    for (unsigned rule : {601, 603, 604, 602})
      if (failing.count(rule))
        return rule;
    return 0;
  }
};

std::vector<SlowCopy> copiesOf(const Program &program) {
  std::vector<SlowCopy> copies;
  for (uint32_t device = 0; device < program.devices; ++device)
    for (uint32_t stage : program.stagesOn(device)) {
      copies.push_back({program, {}});
      for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id)
        if (program.ops[id].stage == stage)
          copies.back().ops.push_back(id);
    }
  return copies;
}

} // namespace

TEST(Versions, OfEachOpAreAsDefined) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    const Program program = randomVersions(seed).program;
    const Versions versions = versionsOf(program);
    const VersionFigures figures = versionFigures(program, versions);
    for (const SlowCopy &copy : copiesOf(program)) {
      uint32_t staleness = 0, kept = 1;
      for (size_t i = 0; i < copy.ops.size(); ++i) {
        const OpId id = copy.ops[i];
        const bool isUpdate = program.ops[id].kind == OpKind::Update;
        ASSERT_EQ(versions.of[id], isUpdate ? copy.updatesBefore(i + 1) : copy.reads(i).value_or(noVersion))
            << str(program.ops[id]);
        ASSERT_EQ(versions.kept[id], copy.keptBehind(i).size()) << str(program.ops[id]);
        kept = std::max(kept, versions.kept[id]);
        staleness = std::max(staleness, isUpdate ? copy.staleness(i) : 0);
      }
      const uint32_t stage = copy.op(0).stage; // each has one copy
      EXPECT_EQ(figures.staleness[stage], staleness);
      EXPECT_EQ(figures.kept[stage], kept);
    }
  }
}

TEST(Versions, FindingsAreAsDefined) {
  std::map<unsigned, unsigned> seen;
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE(seed);
    const auto [program, costs] = randomVersions(seed);
    std::set<unsigned> expected, found;
    for (const SlowCopy &copy : copiesOf(program))
      if (unsigned rule = copy.firstCause(costs.stalenessBound))
        expected.insert(rule);
    Diagnostics diagnostics;
    verify(program, ProgramIndex(program), costs, diagnostics);
    for (const Finding &finding : diagnostics.findings())
      found.insert(info(finding.rule).number);
    ASSERT_EQ(found, expected);
    for (unsigned rule : found)
      ++seen[rule];
    seen[0] += found.empty();
  }
  for (unsigned rule : {0, 601, 602, 603, 604})
    EXPECT_GT(seen[rule], 20u) << rule;
}

/// PipeDream on one stage of two, by hand: forward 1 and 2 are under way when update 1 comes.
TEST(Versions, StashesTakeMemory) {
  ScheduleBuilder builder("stashes", {1, 3, 1});
  builder.place([](Stage, Microbatch) { return Device(0); });
  builder.program(0, [](DeviceProgram &program) {
    program.forward(0, 0);
    program.forward(0, 1);
    program.backward(0, 0);
    program.update();
    program.forward(0, 2);
    program.backward(0, 1);
    program.update();
    program.backward(0, 2);
    program.update();
  });
  const Program program = builder.build();
  const ProgramIndex index(program);
  CostModel costs = CostModel::ofTicks(1);
  costs.weights = {100};
  costs.activation = StageTable<int64_t>({1});
  costs.asynchronous = true;
  Diagnostics diagnostics;
  const auto timeline = simulate(program, index, costs, diagnostics);
  const Versions versions = versionsOf(program);
  // Behind update 1 forward 1 still needs version 0, behind update 2 forward 2 still needs version 1.
  EXPECT_EQ(versions.kept, (std::vector<uint32_t>{1, 1, 1, 2, 2, 1, 2, 1, 1}));
  const auto memory = memoryFigures(program, index, costs, *timeline, diagnostics, &versions);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->devices[0].peakBytes, 202); // forward 2: two versions, activations of 1 and 2
  EXPECT_EQ(memory->devices[0].livePeak[0].count, 2u);
  const auto single = memoryFigures(program, index, costs, *timeline, diagnostics);
  EXPECT_EQ(single->devices[0].peakBytes, 102);
}
