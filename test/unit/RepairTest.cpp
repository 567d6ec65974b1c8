// Repairs of deadlocks that people have met. The cases are those of pytorch/pytorch#172668,
// tenstorrent/tt-lang#1037, pytorch/torchtitan#775 and NVIDIA/TensorRT-LLM#10665, reduced to their sends
// and receives.
#include "StuckPrograms.h"

#include "IR/Builder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace sluice::test {
namespace {

ChannelRules rulesOf(uint32_t depth) {
  ChannelRules rules;
  rules.depth = depth;
  return rules;
}

/// The edits in short: `group 0: send_activation(0, 1), recv_activation(2, 0)`. Checks that the repaired
/// program completes.
std::string repair(const Program &program, const ChannelRules &rules) {
  std::optional<WaitCycle> cycle = stuckUnder(program, rules);
  if (!cycle)
    return "completes";
  const std::optional<Repair> found = smallestRepair(program, rules, *cycle);
  if (!found)
    return "none";
  ChannelRules mended = rules;
  if (found->change == Repair::Change::Deepen)
    mended.depth = found->depth;
  EXPECT_FALSE(stuckUnder(found->repaired, mended));
  EXPECT_TRUE(arePairsRight(found->repaired, mended));
  std::string text;
  for (const RepairEdit &edit : found->edits)
    text += fmt::format("{}{} {}: {}, {}", text.empty() ? "" : "; ",
                        std::array{"group", "lift", "lower", "split"}[static_cast<size_t>(edit.kind)],
                        edit.device, str(program, edit.op), str(program, edit.other));
  switch (found->change) {
  case Repair::Change::GroupNeighbours:
    return "group neighbours";
  case Repair::Change::InferEarly:
    return "early";
  case Repair::Change::Deepen:
    return fmt::format("eager({})", found->depth);
  case Repair::Change::None:
    return text;
  }
  return text;
}

const std::vector<uint32_t> looped = {0, 1, 0, 1};

TEST(Repair, ReceivesBehindSends) {
  const Program program =
      programOf(looped, 2, {each({SF(0, 1), RF(2, 0), F(2, 0)}), each({SF(1, 0), RF(1, 1), F(1, 1)})});
  EXPECT_EQ(repair(program, rulesOf(0)), "group 0: send_activation(0, 1), recv_activation(2, 0)");
  EXPECT_EQ(repair(program, rulesOf(1)), "completes");
}

TEST(Repair, SendsSwappedOnOddDevices) {
  const Program program = programOf(looped, 3,
                                    {each({SF(2, 1), F(0, 2), SF(0, 2), RB(2, 0), B(2, 0), RB(2, 1)}),
                                     each({RF(3, 1), SB(3, 0), F(3, 1), B(3, 1), RF(1, 2), SB(3, 1)})});
  EXPECT_EQ(repair(program, rulesOf(0)), "group 0: send_activation(0, 2), recv_gradient(2, 0)");
}

TEST(Repair, TwoPushesEachSide) {
  const Program program = programOf(
      looped, 2,
      {each({SF(0, 0), SF(0, 1), RF(2, 0), RF(2, 1)}), each({SF(1, 0), SF(1, 1), RF(1, 0), RF(1, 1)})});
  EXPECT_EQ(repair(program, rulesOf(1)), "group 0: send_activation(0, 1), recv_activation(2, 0)");
  const std::optional<Repair> found = smallestRepair(program, rulesOf(0), *stuckUnder(program, rulesOf(0)));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->edits.size(), 2u);
  EXPECT_FALSE(stuckUnder(found->repaired, rulesOf(0)));
  EXPECT_EQ(repair(program, rulesOf(2)), "completes");
}

TEST(Repair, GroupThatWaitsForItself) {
  const Program program = programOf(looped, 1, {{{SF(0, 0), RF(2, 0)}}, each({RF(1, 0), SF(1, 0)})});
  ChannelRules atomic = rulesOf(0);
  EXPECT_EQ(repair(program, atomic), "completes");
  atomic.atomicGroups = true;
  EXPECT_EQ(repair(program, atomic), "split 0: recv_activation(2, 0), send_activation(0, 0)");
}

TEST(Repair, StartedSendThatMovesOnlyInItsWait) {
  const Program program =
      programOf({0, 1, 2}, 2,
                {each({}), each({start(SF(1, 0)), SF(1, 1), wait(SF(1, 0))}), each({RF(2, 0), RF(2, 1)})});
  ChannelRules inWait = rulesOf(0);
  EXPECT_EQ(repair(program, inWait), "completes");
  inWait.progressInWait = true;
  EXPECT_EQ(repair(program, inWait), "lift 1: wait send_activation(1, 0), send_activation(1, 1)");
}

TEST(Repair, WaitsInAnotherOrderThanTheStarts) {
  const Program program = programOf(
      {0, 1}, 2,
      {each({start(SF(0, 0)), start(SF(0, 1)), wait(SF(0, 1)), wait(SF(0, 0))}), each({RF(1, 0), RF(1, 1)})});
  ChannelRules inWait = rulesOf(ChannelRules::unbounded);
  inWait.progressInWait = true;
  EXPECT_EQ(repair(program, inWait), "lift 0: wait send_activation(0, 0), wait send_activation(0, 1)");
}

TEST(Repair, FirstUsesOfPairsInACircle) {
  // Each device talks to the one before it last; the pairs connect in a circle (Megatron-LM#5240).
  const std::vector<uint32_t> placement = {0, 1, 2, 3, 0};
  Program program = programOf(placement, 1,
                              {each({SF(0, 0), RF(4, 0)}), each({SF(1, 0), RF(1, 0)}),
                               each({SF(2, 0), RF(2, 0)}), each({SF(3, 0), RF(3, 0)})});
  ChannelRules rules = rulesOf(ChannelRules::unbounded);
  EXPECT_EQ(repair(program, rules), "completes");
  rules.connectOnFirstUse = true;
  EXPECT_EQ(repair(program, rules), "group 0: send_activation(0, 0), recv_activation(4, 0)");
}

TEST(Repair, KeepsLocalOrder) {
  // The send cannot come up to the receive that stands in its way, since its producer stands between them:
  // the receive has to come down.
  const Program program =
      programOf({0, 1}, 1,
                {each({RB(0, 0), F(0, 0), SF(0, 0), B(0, 0)}), each({RF(1, 0), F(1, 0), B(1, 0), SB(1, 0)})});
  const ChannelRules rules = rulesOf(ChannelRules::unbounded);
  EXPECT_EQ(repair(program, rules), "group 0: recv_gradient(0, 0), send_activation(0, 0)");
  const Program repaired = smallestRepair(program, rules, *stuckUnder(program, rules))->repaired;
  EXPECT_EQ(statementsOf(repaired)[0], (Statements{{F(0, 0)}, {RB(0, 0), SF(0, 0)}, {B(0, 0)}}));
}

TEST(Repair, BuffersStayFree) {
  // The receive that is needed earlier would take the buffer that the send before it gives back: device 1
  // cannot change its order, so device 0 has to.
  Program program = programOf(
      {0, 1}, 2,
      {each({SF(0, 0), SF(0, 1), RB(0, 0), RB(0, 1)}), each({RF(1, 0), SB(1, 0), RF(1, 1), SB(1, 1)})});
  EXPECT_EQ(repair(program, rulesOf(0)), "group 0: send_activation(0, 1), recv_gradient(0, 0)");
  program = programOf({0, 1}, 2,
                      {each({SF(0, 0), SF(0, 1), F(0, 0), RB(0, 0), RB(0, 1)}),
                       each({RF(1, 0), SB(1, 0), RF(1, 1), SB(1, 1)})});
  EXPECT_EQ(repair(program, rulesOf(0)), "group 1: send_gradient(1, 0), recv_activation(1, 1)");
  program.buffers = StageTable<uint32_t>(std::vector<uint32_t>{0, 0});
  EXPECT_EQ(repair(program, rulesOf(0)), "group 0: send_activation(0, 1), recv_gradient(0, 0)");
}

TEST(Repair, OneStatementOfALoop) {
  // Every turn of both devices sends before it receives: one statement has to change, not each turn.
  ScheduleBuilder builder("g", {4, 3, 2});
  builder.explicitCommunication();
  builder.place([](Stage s, Microbatch) { return s % 2; });
  builder.program([](DeviceProgram &p, Device d) {
    for (Microbatch m = 0; m < 3; ++m) {
      p.sendActivation(d, m);
      d == 0 ? p.recvActivation(2, m) : p.recvActivation(1, m);
    }
  });
  SourceManager sources;
  Program program = builder.build(&sources);
  program.frames = {{}, {0, 0}, {0, 1}, {0, 2}}; // as a loop of the language numbers its turns
  for (OpId id = 0; id < program.size(); ++id)
    program.frameOf[id] = 1 + id % 6 / 2;
  const std::optional<Repair> found = smallestRepair(program, rulesOf(0), *stuckUnder(program, rulesOf(0)));
  ASSERT_TRUE(found);
  ASSERT_EQ(found->edits.size(), 1u);
  EXPECT_EQ(found->edits[0].kind, RepairEdit::Kind::Group);
  EXPECT_EQ(found->edits[0].scope, RepairEdit::Scope::Device);
  EXPECT_FALSE(stuckUnder(found->repaired, rulesOf(0)));
  for (OpId id = 0; id < 6; ++id)
    EXPECT_TRUE(found->repaired.ops[id].has(id % 2 == 0 ? GroupFirst : GroupFollower)) << id;
  EXPECT_FALSE(found->repaired.ops[6].has(GroupFirst));
}

TEST(Repair, ManyKnotsAskForOneChange) {
  // More knots, each of its own, than edits are offered for.
  Statements first, second;
  for (uint32_t m = 0; m < 6; ++m) {
    first.insert(first.end(), {{SF(0, m)}, {RF(2, m)}, {F(2, m)}});
    second.insert(second.end(), {{SF(1, m)}, {RF(1, m)}, {F(1, m)}});
  }
  EXPECT_EQ(repair(programOf(looped, 6, {first, second}), rulesOf(0)), "group neighbours");
}

} // namespace
} // namespace sluice::test
