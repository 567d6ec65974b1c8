// Schedules that hung, or did not, in the field: under which channels they stick, how short the cycle is, and
// what mends them. Every verdict is that of lib/Events and of the slow machine.
#include "CommunicationSearch.h"
#include "Driver/Compilation.h"
#include "Events/Repair.h"
#include "ExplicitPrograms.h"
#include "Passes/LowerCommunication.h"

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
  EXPECT_EQ(outcome.completes, !sluice::stuckUnder(program, rulesOf(blocking))) << str(blocking);
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

/// The shortest cycle of the engine, `stands <- needed` for each hop. No shorter one is found by searching
/// all events.
std::string cycle(const Program &program, const Blocking &blocking) {
  const ChannelRules rules = rulesOf(blocking);
  const std::optional<WaitCycle> found = sluice::stuckUnder(program, rules);
  const std::optional<uint32_t> fewest =
      EventGraph(Posting(machineProgram(program), blocking), blocking).fewestHops();
  if (!found || found->empty() || !fewest) {
    EXPECT_EQ(found && !found->empty(), fewest.has_value());
    return "none";
  }
  EXPECT_EQ(*fewest, found->size() == 1 ? 0 : found->size());
  std::vector<std::string> hops;
  for (const WaitHop &hop : *found)
    hops.push_back(
        fmt::format("{}: {} <- {}", hop.device, str(program, hop.stands), str(program, hop.needed)));
  return fmt::format("{}", fmt::join(hops, "; "));
}

/// The smallest repair, an edit each: `group send_activation(0, 2), recv_gradient(2, 0)`. What it gives
/// completes whatever the order of events.
std::string repair(const Program &program, const Blocking &blocking) {
  static constexpr const char *words[] = {"group", "lift", "lower", "split"};
  const std::optional<Repair> found =
      smallestRepair(program, rulesOf(blocking), *sluice::stuckUnder(program, rulesOf(blocking)));
  if (!found)
    return "none";
  EXPECT_EQ(found->change, Repair::Change::None);
  EXPECT_TRUE(completes(found->repaired, blocking));
  std::vector<std::string> edits;
  for (const RepairEdit &edit : found->edits)
    edits.push_back(fmt::format("{} {}, {}", words[static_cast<unsigned>(edit.kind)], str(program, edit.op),
                                str(program, edit.other)));
  return fmt::format("{}", fmt::join(edits, "; "));
}

// pytorch/pytorch#172668: each device blocks in a send whose receive comes later on the other one.
TEST(CommunicationCases, ReceivesMovedNextToTheirConsumers) {
  const Program program =
      explicitProgram(looped(4, 2, 2), {{sendActivation(0, 1), recvActivation(2, 0), forward(2, 0)},
                                        {sendActivation(1, 0), recvActivation(1, 1), forward(1, 1)}});
  for (Blocking::Key key : {Blocking::Direction, Blocking::Pair, Blocking::Edge, Blocking::Message})
    EXPECT_EQ(stuckUnder(program, channel(0, key)), "rendezvous"); // no key cures it
  EXPECT_EQ(
      cycle(program, rendezvous),
      "0: send_activation(0, 1) <- recv_activation(2, 0); 1: send_activation(1, 0) <- recv_activation(1, 1)");
  EXPECT_EQ(repair(program, rendezvous), "group send_activation(0, 1), recv_activation(2, 0)");
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
  EXPECT_EQ(
      cycle(paritySwap(), rendezvous),
      "0: send_activation(0, 2) <- recv_gradient(2, 0); 1: send_gradient(3, 0) <- recv_activation(1, 2)");
  EXPECT_EQ(repair(paritySwap(), rendezvous), "group send_activation(0, 2), recv_gradient(2, 0)");
}

size_t crossedPairs(const Program &program, Blocking::Key key) {
  return Posting(machineProgram(program), channel(0, key)).crossedPairs();
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
  EXPECT_EQ(
      cycle(program, unbounded),
      "0: reduce_tied(embedding) <- reduce_tied(norms); 1: reduce_tied(norms) <- reduce_tied(embedding)");
  EXPECT_EQ(repair(program, unbounded), "lift reduce_tied(norms), reduce_tied(embedding)");
}

// tenstorrent/tt-lang#1037: each side pushes twice before it takes anything out.
TEST(CommunicationCases, TwoPushesBeforeTheFirstPop) {
  const Program program =
      explicitProgram(looped(2, 2, 2),
                      {{sendActivation(0, 0), sendActivation(0, 1), recvGradient(0, 0), recvGradient(0, 1)},
                       {sendGradient(1, 0), sendGradient(1, 1), recvActivation(1, 0), recvActivation(1, 1)}});
  EXPECT_EQ(stuckUnder(program), "rendezvous eager(1)");
  EXPECT_EQ(
      cycle(program, channel(1)),
      "0: send_activation(0, 1) <- recv_gradient(0, 0); 1: send_gradient(1, 1) <- recv_activation(1, 0)");
  EXPECT_EQ(repair(program, channel(1)), "group send_activation(0, 1), recv_gradient(0, 0)");
  EXPECT_EQ(
      cycle(program, rendezvous),
      "0: send_activation(0, 0) <- recv_gradient(0, 0); 1: send_gradient(1, 0) <- recv_activation(1, 0)");
  EXPECT_EQ(
      repair(program, rendezvous),
      "group send_activation(0, 0), recv_gradient(0, 0); group send_activation(0, 0), recv_gradient(0, 1)");
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
  EXPECT_EQ(cycle(program, atomic), "1: recv_activation(1, 0) <- send_gradient(1, 0)");
  EXPECT_EQ(repair(program, atomic), "split recv_gradient(0, 0), send_activation(0, 0)");
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
  EXPECT_EQ(cycle(program, blocking), "1: send_activation(1, 1) <- wait send_activation(1, 0); 2: "
                                      "recv_activation(2, 0) <- recv_activation(2, 1)");
  EXPECT_EQ(repair(program, blocking), "group recv_activation(2, 0), recv_activation(2, 1)");
  // On one channel the blocking send queues behind the started one: device 1 waits for itself.
  blocking.key = Blocking::Direction;
  EXPECT_EQ(stuckUnder(program, blocking), "rendezvous eager(1) eager(2) unbounded");
  EXPECT_EQ(cycle(program, blocking), "1: send_activation(1, 1) <- wait send_activation(1, 0)");
  EXPECT_EQ(repair(program, blocking), "lift wait send_activation(1, 0), send_activation(1, 1)");
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
      cycle(program, blocking),
      "0: send_activation(0, 0) <- recv_activation(4, 1); 1: send_activation(1, 0) <- recv_activation(1, 0); "
      "2: send_activation(2, 0) <- recv_activation(2, 0); 3: send_activation(3, 1) <- recv_activation(3, 0)");
  EXPECT_EQ(repair(program, blocking), "group send_activation(0, 0), recv_activation(4, 1)");
}

/// `interleaved_megatron` of the library, as elaborated.
Program megatron(const std::string &arguments) {
  SourceManager sources;
  FileLoader loader(sources);
  Compilation compilation(sources, loader);
  Diagnostics diagnostics;
  Program program;
  const std::string text = fmt::format(
      "import \"std/interleaved_megatron\";\nschedule main = interleaved_megatron({});\n", arguments);
  if (compilation.load(*sources.addFile("test.sluice", text), diagnostics))
    compilation.run({}, {}, Compilation::Depth::Elaborate, diagnostics, [&](Instance &instance) {
      if (instance.isCompiled)
        program = std::move(instance.program);
    });
  EXPECT_FALSE(program.ops.empty());
  return program;
}

bool isAcyclic(const Program &program) {
  return lowerCommunication(program, ProgramIndex(program), CommunicationPlacement::Early).has_value();
}

// Groups of 4 microbatches, the last of 1, fewer than devices: the order of the data is cyclic, so no channel
// helps.
TEST(CommunicationCases, LastGroupBelowTheDevices) {
  Program program = megatron("P = 4, M = 5, v = 3, N = 4");
  EXPECT_FALSE(isAcyclic(program));
  const Program late =
      *lowerCommunication(program, ProgramIndex(program), CommunicationPlacement::JustInTime);
  for (Blocking::Key key : {Blocking::Direction, Blocking::Pair, Blocking::Edge, Blocking::Message})
    for (uint32_t depth : {0u, 1u, 2u, Blocking::unbounded})
      EXPECT_TRUE(sluice::stuckUnder(late, rulesOf(channel(depth, key))));
  EXPECT_EQ(
      cycle(late, unbounded),
      "0: recv_activation(8, 4) <- send_gradient(8, 0); 3: recv_gradient(7, 0) <- send_activation(7, 4)");
  // One move on device 0 mends it.
  const auto begin = program.ops.begin(), end = begin + program.deviceBegin[1];
  const auto at = std::find(begin, end, forward(8, 4)), needed = std::find(at, end, backward(8, 0));
  ASSERT_NE(needed, end);
  std::rotate(at, needed, needed + 1);
  EXPECT_TRUE(isAcyclic(program));
}

// Megatron-LM refuses every last group below the number of devices; most of those orders are free.
TEST(CommunicationCases, GroupsOfTheMegatronOrder) {
  size_t whole = 0, wholeFree = 0, below = 0, belowFree = 0;
  for (uint32_t devices = 2; devices <= 6; ++devices)
    for (uint32_t chunks = 2; chunks <= 4; ++chunks)
      for (uint32_t size = devices; size <= devices + 2; ++size)
        for (uint32_t microbatches = size; microbatches <= 3 * size; ++microbatches) {
          const bool isFree = isAcyclic(
              megatron(fmt::format("P = {}, M = {}, v = {}, N = {}", devices, microbatches, chunks, size)));
          const uint32_t last = microbatches % size;
          const bool isWhole = last == 0 || last >= devices;
          (isWhole ? whole : below) += 1;
          (isWhole ? wholeFree : belowFree) += isFree;
        }
  EXPECT_EQ(wholeFree, whole);
  EXPECT_EQ(whole, 225u);
  EXPECT_EQ(belowFree, 222u);
  EXPECT_EQ(below, 270u);
}

} // namespace
} // namespace sluice::slow
