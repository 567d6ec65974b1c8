// The event graph of lib/Events against machines that run every interleaving with real queues: the verdict,
// the requests that are done, where each device stands and the length of the shortest cycle, under all rules.
#include "CommunicationSearch.h"
#include "Events/WaitCycle.h"
#include "ExplicitPrograms.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace sluice::slow {
namespace {

/// What one judge says of a program, by ops: `completes`, or where devices stand, what is done and the hops.
struct Said {
  bool completes = false;
  std::vector<OpId> fronts;
  std::vector<bool> done; ///< Per op; only of sends, receives and joint calls.
  std::optional<uint32_t> hops;
  friend bool operator==(const Said &, const Said &) = default;
};

std::string str(const Said &said) {
  std::string text = said.completes ? "completes; fronts" : "sticks; fronts";
  for (OpId front : said.fronts)
    text += fmt::format(" {}", front);
  text += "; not done";
  for (OpId op = 0; op < said.done.size(); ++op)
    if (!said.done[op])
      text += fmt::format(" {}", op);
  return text + (said.hops ? fmt::format("; {} hops", *said.hops) : "; no cycle");
}

/// Every hop stands on its device at or before what the hop before waits for, unless that has been started
/// earlier; the lowest device comes first.
void expectSound(const Program &program, const WaitCycle &cycle, const Blocking &blocking) {
  SCOPED_TRACE(str(blocking) + "\n" + describe(program));
  for (const WaitHop &hop : cycle) {
    ASSERT_EQ(program.deviceOf(hop.stands), hop.device);
    ASSERT_EQ(program.deviceOf(hop.needed), hop.device);
    if (cycle.size() > 1) {
      ASSERT_TRUE(hop.stands <= hop.needed || program.ops[hop.needed].isStarted());
      ASSERT_LE(cycle.front().device, hop.device);
    }
  }
}

Said ofEngine(const Program &program, const Blocking &blocking) {
  const ChannelRules rules = rulesOf(blocking);
  const Requests requests(program, rules);
  Execution execution(requests, rules);
  Said said;
  said.completes = execution.run();
  said.fronts = execution.fronts().vec();
  said.done.assign(program.size(), true);
  for (RequestId r = 0; r < requests.size(); ++r)
    said.done[requests.op[r]] = execution.isDone(r);
  if (!said.completes)
    if (const WaitCycle cycle = shortestWaitCycle(requests, rules, execution); !cycle.empty()) {
      said.hops = cycle.size() == 1 ? 0 : cycle.size(); // one device that waits for itself crosses none
      expectSound(program, cycle, blocking);
    }
  return said;
}

/// Nothing if there are too many states.
std::optional<Said> ofEveryWay(const Program &program, const Blocking &blocking) {
  const Posting posting(machineProgram(program), blocking);
  const Outcome outcome = runEveryWay(posting, blocking, 50'000);
  if (outcome.tooLarge)
    return std::nullopt;
  EXPECT_EQ(outcome.finals, 1u);
  Said said;
  said.completes = outcome.completes;
  for (uint32_t device = 0; device < program.devices; ++device)
    said.fronts.push_back(outcome.stands[device] == posting.program[device].size()
                              ? program.deviceBegin[device + 1]
                              : posting.program[device][outcome.stands[device]].tag);
  said.done.assign(program.size(), true);
  for (uint32_t place = 0; place < posting.places.size(); ++place)
    if (const OpId op = posting.places[place].action->tag; op != noOp)
      said.done[op] = outcome.done[place];
  said.hops = EventGraph(posting, blocking).fewestHops();
  return said;
}

TEST(Events, AgreeWithEveryInterleaving) {
  size_t complete = 0, stuck = 0, tooLarge = 0, differences = 0;
  std::map<uint32_t, size_t> cyclesOf;
  for (uint64_t seed = 0; seed < 10'000 && differences < 3; ++seed) {
    Random random(seed);
    const Program program = randomCommunication(seed);
    for (int i = 0; i < 6; ++i) {
      const Blocking blocking = randomBlocking(random);
      const std::optional<Said> said = ofEveryWay(program, blocking);
      if (!said) {
        ++tooLarge;
        continue;
      }
      ++(said->completes ? complete : stuck);
      if (said->hops)
        ++cyclesOf[*said->hops];
      if (ofEngine(program, blocking) == *said)
        continue;
      ++differences;
      const Program small = smallest(program, [&](const Program &smaller) {
        const std::optional<Said> slow = ofEveryWay(smaller, blocking);
        return slow && !(ofEngine(smaller, blocking) == *slow);
      });
      ADD_FAILURE() << "seed " << seed << ", " << str(blocking) << "\n"
                    << describe(small) << "every way " << str(*ofEveryWay(small, blocking)) << "\nevents    "
                    << str(ofEngine(small, blocking));
      break;
    }
  }
  EXPECT_LT(tooLarge, 100u);
  EXPECT_GT(complete, 15'000u);
  EXPECT_GT(stuck, 15'000u);
  for (uint32_t hops : {0u, 2u, 3u, 4u})
    EXPECT_GT(cyclesOf[hops], 20u) << hops << " hops";
}

} // namespace
} // namespace sluice::slow
