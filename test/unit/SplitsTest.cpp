// Sequence splits against a slow reading of their definition: a unit's forward waits for the one of the
// split before, its backward for the one of the split behind, and nothing else changes.
#include "RandomOrder.h"
#include "Timeline/Figures.h"
#include "Verify/Verify.h"

#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::slow;

namespace {

ScheduleBuilder builderOf(const RandomOrder &order) {
  ScheduleBuilder builder("splits", order.sizes);
  builder.place([&](Stage s, Microbatch) { return order.deviceOf[s]; });
  for (uint32_t device = 0; device < order.sizes.devices; ++device)
    builder.program(device, [&](DeviceProgram &program) {
      for (const Op &op : order.devices[device])
        write(program, op);
    });
  return builder;
}

/// Ends of the ops by repeated scans, in the order of Program::ops; nothing if some op never runs.
std::optional<std::vector<int64_t>> endsOf(const RandomOrder &order, const Program &program,
                                           const CostModel &costs) {
  std::vector<int64_t> ends(program.size(), -1), clock(program.devices, 0);
  std::vector<OpId> next(program.deviceBegin.begin(), program.deviceBegin.end() - 1);
  auto endOf = [&](const Op &wanted) -> int64_t {
    for (OpId id = 0; id < program.size(); ++id)
      if (const Op &op = program.ops[id]; op.stage == wanted.stage && op.microbatch == wanted.microbatch &&
                                          plainKind(op.kind) == plainKind(wanted.kind))
        return ends[id];
    return -1;
  };
  for (bool moved = true; std::exchange(moved, false);)
    for (uint32_t device = 0; device < program.devices; ++device) {
      if (next[device] == program.deviceBegin[device + 1])
        continue;
      const Op &op = program.ops[next[device]];
      int64_t start = clock[device];
      bool isReady = true;
      for (const Op &need : order.prerequisites(op)) {
        const int64_t end = endOf(need);
        isReady = isReady && end >= 0;
        int64_t transfer = 0;
        if (order.deviceOf[need.stage] != device)
          transfer = op.kind == OpKind::Forward ? costs.activationTransfer.at(need.stage, op.microbatch)
                                                : costs.gradientTransfer.at(need.stage, op.microbatch);
        start = std::max(start, end + transfer);
      }
      if (!isReady)
        continue;
      clock[device] = ends[next[device]++] = start + durationOf(costs, op);
      moved = true;
    }
  if (std::count(ends.begin(), ends.end(), -1) > 0)
    return std::nullopt;
  return ends;
}

/// One tick and more, different for each stage and unit.
CostModel costsOf(const RandomOrder &order, Random &random) {
  CostModel costs = CostModel::ofTicks(order.sizes.stages);
  auto fill = [&](StageTable<int64_t> &table, auto value) {
    table = {};
    for (uint32_t m = 0; m < order.sizes.microbatches; ++m) {
      std::vector<int64_t> row(order.sizes.stages);
      for (uint32_t s = 0; s < order.sizes.stages; ++s)
        row[s] = value(s);
      table.addMicrobatch(row);
    }
    table.finish();
  };
  for (auto *table : {&costs.forward, &costs.backward, &costs.backwardInput, &costs.backwardWeight})
    fill(*table, [&](uint32_t) { return random.between(1, 9); });
  auto device = [&](uint32_t s) { return order.deviceOf[s]; };
  fill(costs.activationTransfer, [&](uint32_t s) {
    return s + 1 < order.sizes.stages && device(s) != device(s + 1) ? random.between(0, 5) : 0;
  });
  fill(costs.gradientTransfer,
       [&](uint32_t s) { return s > 0 && device(s) != device(s - 1) ? random.between(0, 5) : 0; });
  return costs;
}

} // namespace

TEST(Splits, RandomOrdersRunAsDefined) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const RandomOrder order = randomOrder(random, 1 + random.below(4));
    const Program program = builderOf(order).build();
    const ProgramIndex index(program);
    const CostModel costs = costsOf(order, random);
    Diagnostics diagnostics;
    const Verdict verdict = verify(program, index, costs, diagnostics);
    ASSERT_TRUE(verdict.clean && verdict.complete) << diagnostics.findings().front().message;
    const auto timeline = simulate(program, index, costs, diagnostics);
    ASSERT_TRUE(timeline);
    const auto ends = endsOf(order, program, costs);
    ASSERT_TRUE(ends);
    ASSERT_EQ(timeline->end, *ends);
  }
}

TEST(Splits, DisturbedOrdersAreIllegalExactlyWhereTheyStop) {
  unsigned legal = 0, illegal = 0, bySplit = 0;
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    RandomOrder order = randomOrder(random, 2 + random.below(3));
    std::vector<Op> &ops = order.devices[random.below(order.sizes.devices)];
    const auto count = static_cast<uint32_t>(ops.size());
    std::swap(ops[random.below(count)], ops[random.below(count)]);
    const Program program = builderOf(order).build();
    const CostModel costs = costsOf(order, random);
    Diagnostics diagnostics;
    const bool isClean = verify(program, ProgramIndex(program), costs, diagnostics).clean;
    ASSERT_EQ(isClean, endsOf(order, program, costs).has_value());
    ++(isClean ? legal : illegal);
    // The same order of whole microbatches: what is legal there and not here, a split forbids.
    Program whole = program;
    whole.sequenceSplits = 1;
    Diagnostics ofWhole;
    bySplit += !isClean && verify(whole, ProgramIndex(whole), costs, ofWhole).clean;
  }
  EXPECT_GT(legal, 100u);
  EXPECT_GT(illegal, 100u);
  EXPECT_GT(bySplit, 50u);
}

TEST(Splits, EdgesAreTheDefinitions) {
  Random random(5);
  for (unsigned turn = 0; turn < 50; ++turn) {
    const RandomOrder order = randomOrder(random, 3);
    const Program program = builderOf(order).build();
    const ProgramIndex index(program);
    for (const Op &op : program.ops) {
      std::set<std::tuple<OpKind, uint32_t, uint32_t>> expected, found;
      for (const Op &need : order.prerequisites(op))
        expected.insert({plainKind(need.kind), need.stage, need.microbatch});
      for (const Edge &edge : inputsOf(program, index, op)) {
        const Op &from = program.ops[edge.from];
        found.insert({plainKind(from.kind), from.stage, from.microbatch});
        EXPECT_EQ(edge.kind == EdgeKind::Split, from.stage == op.stage && from.microbatch != op.microbatch);
      }
      ASSERT_EQ(found, expected) << str(op);
    }
  }
}

TEST(Splits, OfOneMicrobatchStayTogether) {
  ScheduleBuilder builder("apart", {1, 4, 2, 2});
  builder.place([](Stage, Microbatch u) { return u == 3 ? Device(1) : Device(0); });
  builder.program(0, [](DeviceProgram &program) {
    for (uint32_t u : {0u, 1u, 2u})
      program.forward(0, u);
    for (uint32_t u : {1u, 0u, 2u})
      program.backward(0, u);
  });
  builder.program(1, [](DeviceProgram &program) {
    program.forward(0, 3);
    program.backward(0, 3);
  });
  const Program program = builder.build();
  Diagnostics diagnostics;
  verify(program, ProgramIndex(program), CostModel::ofTicks(1), diagnostics);
  ASSERT_EQ(diagnostics.findings().size(), 1u);
  EXPECT_EQ(diagnostics.findings()[0].message,
            "stage 0, microbatch 1 (units 2 to 3) is placed on devices 0, 1");
}

TEST(Splits, MembersOfAnOverlapMayNotFeedEachOther) {
  ScheduleBuilder builder("joined", {1, 2, 1, 2});
  builder.place([](Stage, Microbatch) { return Device(0); });
  builder.program(0, [](DeviceProgram &program) {
    program.overlap([&] {
      program.forward(0, 0);
      program.forward(0, 1);
    });
    program.backward(0, 1);
    program.backward(0, 0);
  });
  const Program program = builder.build();
  Diagnostics diagnostics;
  verify(program, ProgramIndex(program), CostModel::ofTicks(1), diagnostics);
  ASSERT_EQ(diagnostics.findings().size(), 1u);
  EXPECT_EQ(diagnostics.findings()[0].rule, Rule::OverlapDependsOnItself);
}
