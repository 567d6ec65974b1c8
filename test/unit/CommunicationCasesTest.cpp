// Schedules that hung, or did not, in the field: under which channels they stick, where each device then
// stands, and how short the cycle is.
#include "CommunicationSearch.h"
#include "ExplicitPrograms.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace sluice::slow {
namespace {

/// `stages` over `devices` in turns, the same for all microbatches.
PlacementRows looped(uint32_t stages, uint32_t devices, uint32_t microbatches) {
  std::vector<uint32_t> row(stages);
  for (uint32_t s = 0; s < stages; ++s)
    row[s] = s % devices;
  return PlacementRows(microbatches, row);
}

Op forward(uint32_t s, uint32_t m) { return {OpKind::Forward, 0, static_cast<uint16_t>(s), m}; }
Op backward(uint32_t s, uint32_t m) { return {OpKind::Backward, 0, static_cast<uint16_t>(s), m}; }

Blocking channel(uint32_t depth, Blocking::Key key = Blocking::Direction) {
  Blocking blocking;
  blocking.depth = depth;
  blocking.key = key;
  return blocking;
}
const Blocking rendezvous = channel(0), unbounded = channel(Blocking::unbounded);

bool completes(const Program &program, const Blocking &blocking) {
  const Posting posting(machineProgram(program), blocking);
  const Outcome outcome = runEveryWay(posting, blocking);
  EXPECT_EQ(outcome.finals, 1u);
  return outcome.completes;
}

/// `rendezvous eager(1)`: of the models, from the strictest on, those under which `program` sticks.
std::string stuckUnder(const Program &program, Blocking blocking = {}) {
  std::vector<std::string> models;
  for (uint32_t depth : {0u, 1u, 2u, Blocking::unbounded}) {
    blocking.depth = depth;
    if (!completes(program, blocking))
      models.push_back(depth == 0                     ? "rendezvous"
                       : depth == Blocking::unbounded ? "unbounded"
                                                      : fmt::format("eager({})", depth));
  }
  return fmt::format("{}", fmt::join(models, " "));
}

/// `2 hops: send_activation(0, 1), wait recv_gradient(1, 0)`: the shortest cycle, and where the devices that
/// are stuck stand.
std::string seen(const Program &program, const Blocking &blocking) {
  const Posting posting(machineProgram(program), blocking);
  const Outcome outcome = runEveryWay(posting, blocking);
  const std::optional<uint32_t> hops = EventGraph(posting, blocking).fewestHops();
  std::vector<std::string> fronts;
  for (uint32_t device = 0; device < program.devices; ++device)
    if (outcome.stands[device] != posting.program[device].size()) {
      fronts.push_back(str(program, posting.program[device][outcome.stands[device]].tag));
    }
  return fmt::format("{} hops: {}", hops ? std::to_string(*hops) : "no", fmt::join(fronts, ", "));
}

// pytorch/pytorch#172668: each device blocks in a send whose receive comes later on the other one.
TEST(CommunicationCases, ReceivesMovedNextToTheirConsumers) {
  const Program program =
      explicitProgram(looped(4, 2, 2), {{sendActivation(0, 1), recvActivation(2, 0), forward(2, 0)},
                                        {sendActivation(1, 0), recvActivation(1, 1), forward(1, 1)}});
  for (Blocking::Key key : {Blocking::Direction, Blocking::Pair, Blocking::Edge, Blocking::Message})
    EXPECT_EQ(stuckUnder(program, channel(0, key)), "rendezvous"); // no key cures it
  EXPECT_EQ(seen(program, rendezvous), "2 hops: send_activation(0, 1), send_activation(1, 0)");
}

Program paritySwap() {
  return explicitProgram(looped(4, 2, 3), {{sendActivation(2, 1), forward(0, 2), sendActivation(0, 2),
                                            recvGradient(2, 0), backward(2, 0), recvGradient(2, 1)},
                                           {recvActivation(3, 1), sendGradient(3, 0), forward(3, 1),
                                            backward(3, 1), recvActivation(1, 2), sendGradient(3, 1)}});
}

// The same report's second try: the order swapped on odd devices.
TEST(CommunicationCases, OrderSwappedOnOddDevices) {
  EXPECT_EQ(stuckUnder(paritySwap()), "rendezvous");
  EXPECT_EQ(seen(paritySwap(), rendezvous), "2 hops: send_activation(0, 2), send_gradient(3, 0)");
}

/// Sends and receives that meet as pairs but carry different messages.
size_t crossedPairs(const Program &program, Blocking::Key key) {
  const Posting posting(machineProgram(program), channel(0, key));
  size_t crossed = 0;
  for (const Posting::Directed &direction : posting.directions)
    for (size_t n = 0; n < std::min(direction.sends.size(), direction.receives.size()); ++n)
      crossed += !(posting.places[direction.sends[n]].action->carried ==
                   posting.places[direction.receives[n]].action->carried);
  return crossed;
}

// Megatron-LM#1450, #5271: on two devices the next is also the one before, and both post the exchange with
// the one before first.
TEST(CommunicationCases, RolesInOneOrderOnTwoDevices) {
  const Program program = explicitProgram(
      looped(4, 2, 2),
      {group({sendGradient(2, 0), recvActivation(2, 1), sendActivation(0, 1), recvGradient(0, 0)}),
       group({sendGradient(1, 0), recvActivation(1, 1), sendActivation(1, 1), recvGradient(1, 0)})});
  for (Blocking::Key key : {Blocking::Direction, Blocking::Pair, Blocking::Edge, Blocking::Message})
    EXPECT_EQ(stuckUnder(program, channel(0, key)), "");
  EXPECT_EQ(crossedPairs(program, Blocking::Direction), 4u);
  EXPECT_EQ(crossedPairs(program, Blocking::Pair), 4u);
  EXPECT_EQ(crossedPairs(program, Blocking::Edge), 0u);
}

// DeepSpeed#7208: shared weights walked in different orders.
TEST(CommunicationCases, CollectivesInTwoOrders) {
  const auto tied = [](uint16_t stage, uint32_t tie) { return Op{OpKind::ReduceTied, 0, stage, tie}; };
  const Program program =
      explicitProgram(looped(4, 2, 1), {{tied(0, 0), tied(1, 1)}, {tied(1, 1), tied(0, 0)}}, {},
                      {{"embedding", {0, 3}, {}}, {"norms", {1, 2}, {}}});
  EXPECT_EQ(stuckUnder(program), "rendezvous eager(1) eager(2) unbounded");
  EXPECT_EQ(seen(program, unbounded), "2 hops: reduce_tied(embedding), reduce_tied(norms)");
}

// tenstorrent/tt-lang#1037: each side pushes twice before it takes anything out.
TEST(CommunicationCases, TwoPushesBeforeTheFirstPop) {
  const Program program =
      explicitProgram(looped(2, 2, 2),
                      {{sendActivation(0, 0), sendActivation(0, 1), recvGradient(0, 0), recvGradient(0, 1)},
                       {sendGradient(1, 0), sendGradient(1, 1), recvActivation(1, 0), recvActivation(1, 1)}});
  EXPECT_EQ(stuckUnder(program), "rendezvous eager(1)");
  EXPECT_EQ(seen(program, channel(1)), "2 hops: send_activation(0, 1), send_gradient(1, 1)");
  EXPECT_EQ(seen(program, rendezvous), "2 hops: send_activation(0, 0), send_gradient(1, 0)");
}

// pytorch/torchtitan#775: the answer to one member of a group is computed from the other.
TEST(CommunicationCases, GroupThatStartsAsAWhole) {
  const Program program = explicitProgram(
      looped(2, 2, 1), {std::vector{forward(0, 0)} + group({sendActivation(0, 0), recvGradient(0, 0)}),
                        {recvActivation(1, 0), forward(1, 0), backward(1, 0), sendGradient(1, 0)}});
  EXPECT_EQ(stuckUnder(program), "");
  Blocking atomic;
  atomic.atomicGroups = true;
  EXPECT_EQ(stuckUnder(program, atomic), "rendezvous eager(1) eager(2) unbounded");
  EXPECT_EQ(seen(program, atomic), "0 hops: send_activation(0, 0), recv_activation(1, 0)");
}

// TensorRT-LLM#10665: a started send that moves only in its wait, behind a send that blocks.
TEST(CommunicationCases, StartedSendThatNobodyDrives) {
  const Program program = explicitProgram(
      looped(3, 3, 2), {{},
                        {started(sendActivation(1, 0)), sendActivation(1, 1), waits(sendActivation(1, 0))},
                        {recvActivation(2, 0), recvActivation(2, 1)}});
  Blocking blocking = channel(0, Blocking::Message);
  EXPECT_EQ(stuckUnder(program, blocking), "");
  blocking.progressInWait = true;
  EXPECT_EQ(stuckUnder(program, blocking), "rendezvous");
  EXPECT_EQ(seen(program, blocking), "2 hops: send_activation(1, 1), recv_activation(2, 0)");
  // On one channel the blocking send queues behind the started one: device 1 waits for itself.
  blocking.key = Blocking::Direction;
  EXPECT_EQ(stuckUnder(program, blocking), "rendezvous eager(1) eager(2) unbounded");
  EXPECT_EQ(seen(program, blocking), "0 hops: send_activation(1, 1), recv_activation(2, 0)");
}

// Megatron-LM#5240: a communicator of each pair of devices is made on its first use.
TEST(CommunicationCases, FirstUsesInACircle) {
  PlacementRows ring = looped(5, 4, 2);
  const Program program = explicitProgram(ring, {{sendActivation(0, 0), recvActivation(4, 1)},
                                                 {sendActivation(1, 0), recvActivation(1, 0)},
                                                 {sendActivation(2, 0), recvActivation(2, 0)},
                                                 {sendActivation(3, 1), recvActivation(3, 0)}});
  EXPECT_EQ(stuckUnder(program, channel(0, Blocking::Message)), "rendezvous");
  Blocking blocking = unbounded;
  EXPECT_TRUE(completes(program, blocking));
  blocking.connectsOnFirstUse = true;
  EXPECT_EQ(
      seen(program, blocking),
      "4 hops: send_activation(0, 0), send_activation(1, 0), send_activation(2, 0), send_activation(3, 1)");
}

} // namespace
} // namespace sluice::slow
