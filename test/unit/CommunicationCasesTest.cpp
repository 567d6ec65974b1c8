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

Transport channel(uint32_t depth, Transport::Key key = Transport::Direction) {
  Transport transport;
  transport.depth = depth;
  transport.key = key;
  return transport;
}
const Transport rendezvous = channel(0), unbounded = channel(Transport::unbounded);

bool completes(const Program &program, const Transport &transport) {
  const Posting posting(machineProgram(program), transport);
  const Outcome outcome = runEveryWay(posting, transport);
  EXPECT_EQ(outcome.finals, 1u);
  return outcome.completes;
}

/// `rendezvous eager(1)`: of the models, from the strictest on, those under which `program` sticks.
std::string stuckUnder(const Program &program, Transport transport = {}) {
  std::vector<std::string> models;
  for (uint32_t depth : {0u, 1u, 2u, Transport::unbounded}) {
    transport.depth = depth;
    if (!completes(program, transport))
      models.push_back(depth == 0                      ? "rendezvous"
                       : depth == Transport::unbounded ? "unbounded"
                                                       : fmt::format("eager({})", depth));
  }
  return fmt::format("{}", fmt::join(models, " "));
}

/// `2 hops: send_activation(0, 1), wait recv_gradient(1, 0)`: the shortest cycle, and where the devices that
/// are stuck stand.
std::string seen(const Program &program, const Transport &transport) {
  const Posting posting(machineProgram(program), transport);
  const Outcome outcome = runEveryWay(posting, transport);
  const std::optional<uint32_t> hops = EventGraph(posting, transport).fewestHops();
  std::vector<std::string> fronts;
  for (uint32_t device = 0; device < program.devices; ++device)
    if (outcome.stands[device] != posting.program[device].size()) {
      const Op &op = program.ops[posting.program[device][outcome.stands[device]].tag];
      fronts.push_back((op.has(Waits) ? "wait " : "") + str(op));
    }
  return fmt::format("{} hops: {}", hops ? std::to_string(*hops) : "no", fmt::join(fronts, ", "));
}

// pytorch/pytorch#172668: each device blocks in a send whose receive comes later on the other one.
TEST(CommunicationCases, ReceivesMovedNextToTheirConsumers) {
  const Program program =
      explicitProgram(looped(4, 2, 2), {{sendActivation(0, 1), recvActivation(2, 0), forward(2, 0)},
                                        {sendActivation(1, 0), recvActivation(1, 1), forward(1, 1)}});
  for (Transport::Key key : {Transport::Direction, Transport::Pair, Transport::Edge, Transport::Message})
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
size_t crossedPairs(const Program &program, Transport::Key key) {
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
  for (Transport::Key key : {Transport::Direction, Transport::Pair, Transport::Edge, Transport::Message})
    EXPECT_EQ(stuckUnder(program, channel(0, key)), "");
  EXPECT_EQ(crossedPairs(program, Transport::Direction), 4u);
  EXPECT_EQ(crossedPairs(program, Transport::Pair), 4u);
  EXPECT_EQ(crossedPairs(program, Transport::Edge), 0u);
}

// DeepSpeed#7208: shared weights walked in different orders.
TEST(CommunicationCases, CollectivesInTwoOrders) {
  const auto reduce = [](uint32_t s) {
    return Op{OpKind::Reduce, 0, static_cast<uint16_t>(s), noMicrobatch};
  };
  const Program program = explicitProgram({{0, 1}, {1, 0}}, {{reduce(0), reduce(1)}, {reduce(1), reduce(0)}});
  EXPECT_EQ(stuckUnder(program), "rendezvous eager(1) eager(2) unbounded");
  EXPECT_EQ(seen(program, unbounded), "2 hops: reduce(0), reduce(1)");
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
  Transport atomic;
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
  Transport transport = channel(0, Transport::Message);
  EXPECT_EQ(stuckUnder(program, transport), "");
  transport.progressInWait = true;
  EXPECT_EQ(stuckUnder(program, transport), "rendezvous");
  EXPECT_EQ(seen(program, transport), "2 hops: send_activation(1, 1), recv_activation(2, 0)");
  // On one channel the blocking send queues behind the started one: device 1 waits for itself.
  transport.key = Transport::Direction;
  EXPECT_EQ(stuckUnder(program, transport), "rendezvous eager(1) eager(2) unbounded");
  EXPECT_EQ(seen(program, transport), "0 hops: send_activation(1, 1), recv_activation(2, 0)");
}

// Megatron-LM#5240: a communicator of each pair of devices is made on its first use.
TEST(CommunicationCases, FirstUsesInACircle) {
  PlacementRows ring = looped(5, 4, 2);
  const Program program = explicitProgram(ring, {{sendActivation(0, 0), recvActivation(4, 1)},
                                                 {sendActivation(1, 0), recvActivation(1, 0)},
                                                 {sendActivation(2, 0), recvActivation(2, 0)},
                                                 {sendActivation(3, 1), recvActivation(3, 0)}});
  EXPECT_EQ(stuckUnder(program, channel(0, Transport::Message)), "rendezvous");
  Transport transport = unbounded;
  EXPECT_TRUE(completes(program, transport));
  transport.connectsOnFirstUse = true;
  EXPECT_EQ(
      seen(program, transport),
      "4 hops: send_activation(0, 0), send_activation(1, 0), send_activation(2, 0), send_activation(3, 1)");
}

} // namespace
} // namespace sluice::slow
