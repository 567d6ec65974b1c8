// The link between processes, without processes: each "process" here is a thread with a supervisor of its
// own, and they find each other over loopback. Tables are made by hand, so that no compiler is needed.
#include <sluice/Peers.h>

#include <future>
#include <gtest/gtest.h>

using namespace sluice::runtime;
using namespace std::chrono_literals;

namespace {

constexpr uint32_t count = 3;

/// Three devices of a few rows each; `idle` has none.
class World {
public:
  explicit World(uint32_t idle = count) {
    for (uint32_t device = 0; device < count; ++device)
      rows.push_back({{Op::Forward, 0, static_cast<uint16_t>(device), 0, 0, 1, 0, noSlot},
                      {Op::SendActivation, 0, static_cast<uint16_t>(device), 0, 1, 0, noSlot, noSlot},
                      {Op::ReceiveGradient, 0, static_cast<uint16_t>(device), 0, 1, 0, noSlot, noSlot}});
    if (idle < count)
      rows[idle].clear();
    for (const auto &list : rows)
      devices.push_back({.instructions = list, .boundaries = 2, .saveds = 1, .pendings = 0});
    tables = {.provenance = {"three", "", "abc"},
              .stages = count,
              .microbatches = 1,
              .devices = devices,
              .channels = {},
              .copies = {},
              .lossFactor = {}};
  }
  Tables tables;

private:
  std::vector<std::vector<Instruction>> rows;
  std::vector<Device> devices;
};

struct Outcome {
  std::string problem, error;
  bool isNested = false;
  unsigned told = 0; ///< Calls of onFailure.
};

/// One process: meets the others, then does `work(supervisor, peers)`.
template <class Work>
Outcome live(const World &world, uint32_t rank, std::shared_future<std::string> invitation,
             std::promise<std::string> *invite, std::string digest, Work &&work) {
  Outcome outcome;
  std::atomic<unsigned> told = 0;
  Introduction introduction(rank, count, std::move(digest));
  if (rank == 0) {
    invite->set_value(introduction.invite());
    outcome.problem = introduction.admit(5s);
  } else {
    outcome.problem = introduction.join(invitation.get(), 5s);
  }
  if (!outcome.problem.empty())
    return outcome;
  Supervisor supervisor(world.tables, count, 200ms);
  {
    Peers peers(rank, count, std::move(introduction), [&](const ExecutionError &) { ++told; });
    peers.start(supervisor);
    try {
      work(rank, supervisor, peers);
    } catch (const ExecutionError &error) {
      outcome.error = error.what();
      try {
        std::rethrow_if_nested(error);
      } catch (const std::runtime_error &) {
        outcome.isNested = true;
      }
    }
  }
  outcome.told = told;
  return outcome;
}

template <class Work>
std::vector<Outcome> liveAll(Work work, const std::vector<std::string> &digests = {"abc", "abc", "abc"},
                             const World &world = World()) {
  std::promise<std::string> invite;
  const std::shared_future<std::string> invitation = invite.get_future();
  std::vector<std::future<Outcome>> all;
  for (uint32_t rank = 0; rank < count; ++rank)
    all.push_back(std::async(std::launch::async, [&, rank] {
      return live(world, rank, invitation, &invite, digests[rank], work);
    }));
  std::vector<Outcome> outcomes;
  for (auto &one : all)
    outcomes.push_back(one.get());
  return outcomes;
}

/// A run in which this process's worker does `worker()`.
template <class Worker> void run(uint32_t rank, Supervisor &supervisor, Peers &peers, Worker &&worker) {
  supervisor.begin();
  worker();
  supervisor.finish(rank);
  peers.finishRun([] {});
  supervisor.rethrow();
}

/// Waits, in vain, for `peer` to do its part of row `row`.
void waitInVain(uint32_t rank, Supervisor &supervisor, uint32_t row, uint32_t peer) {
  supervisor.reach(rank, 0, row);
  supervisor.beginWait(rank, row, peer);
  EXPECT_FALSE(supervisor.waiter(rank).poll([] { return false; }));
  supervisor.endWait(rank);
}

} // namespace

TEST(Peers, ARunEndsWhenAllHaveFinished) {
  std::atomic<unsigned> finished = 0;
  const auto outcomes = liveAll([&](uint32_t rank, Supervisor &supervisor, Peers &peers) {
    for (unsigned step = 1; step <= 5; ++step) {
      run(rank, supervisor, peers, [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(rank == step % count ? 20 : 0));
        ++finished;
      });
      EXPECT_GE(finished.load(), step * count);
    }
  });
  for (const Outcome &outcome : outcomes) {
    EXPECT_EQ(outcome.problem + outcome.error, "");
    EXPECT_EQ(outcome.told, 0u);
  }
}

TEST(Peers, BetweenRunsNobodyIsStuck) {
  const auto outcomes = liveAll([&](uint32_t rank, Supervisor &supervisor, Peers &peers) {
    run(rank, supervisor, peers, [] {});
    if (rank == 1) // longer than the limit: an evaluation, say
      std::this_thread::sleep_for(700ms);
    run(rank, supervisor, peers, [] {});
  });
  for (const Outcome &outcome : outcomes)
    EXPECT_EQ(outcome.problem + outcome.error, "");
}

TEST(Peers, WhenAllRestBetweenRunsNobodyIsStuck) {
  const auto outcomes = liveAll([&](uint32_t rank, Supervisor &supervisor, Peers &peers) {
    for (unsigned turn = 0; turn < 2; ++turn) {
      run(rank, supervisor, peers, [] {});
      std::this_thread::sleep_for(700ms); // all of them, longer than the limit
    }
  });
  for (const Outcome &outcome : outcomes) {
    EXPECT_EQ(outcome.problem + outcome.error, "");
    EXPECT_EQ(outcome.told, 0u);
  }
}

TEST(Peers, ADeviceWithoutRowsTakesPart) {
  for (uint32_t idle = 0; idle < count; ++idle) {
    const auto outcomes = liveAll(
        [&](uint32_t rank, Supervisor &supervisor, Peers &peers) {
          run(rank, supervisor, peers, [] {});
          if (rank != idle)
            run(rank, supervisor, peers, [&] { waitInVain(rank, supervisor, 2, idle); });
        },
        {"abc", "abc", "abc"}, World(idle));
    for (uint32_t rank = 0; rank < count; ++rank) {
      const std::string &error = outcomes[rank].error;
      EXPECT_EQ(error.find("device " + std::to_string(idle) + ", no op, row 0, step 0: its process ") ==
                    std::string::npos,
                rank == idle)
          << error;
    }
  }
}

TEST(Peers, AFailureIsToldToAllInTheSameWords) {
  for (uint32_t culprit = 0; culprit < count; ++culprit) {
    const auto outcomes = liveAll([&](uint32_t rank, Supervisor &supervisor, Peers &peers) {
      run(rank, supervisor, peers, [&] {
        if (rank == culprit) {
          supervisor.reach(rank, 7, 1);
          supervisor.fail(rank, std::make_exception_ptr(std::runtime_error("no more memory")));
        } else {
          waitInVain(rank, supervisor, 2, culprit);
        }
      });
    });
    for (uint32_t rank = 0; rank < count; ++rank) {
      const std::string number = std::to_string(culprit);
      EXPECT_EQ(outcomes[rank].error, "schedule three, device " + number + ", send_activation(" + number +
                                          ", 0), row 1, step 7: no more memory");
      EXPECT_EQ(outcomes[rank].isNested, rank == culprit);
      EXPECT_EQ(outcomes[rank].told, 1u);
    }
  }
}

TEST(Peers, OfTwoFailuresAllTellTheSame) {
  for (int repeat = 0; repeat < 10; ++repeat) {
    const auto outcomes = liveAll([&](uint32_t rank, Supervisor &supervisor, Peers &peers) {
      run(rank, supervisor, peers, [&] {
        supervisor.reach(rank, 0, 1);
        if (rank != 0)
          supervisor.fail(rank, std::make_exception_ptr(std::runtime_error("no more memory")));
        else
          waitInVain(rank, supervisor, 2, 1);
      });
    });
    EXPECT_EQ(outcomes[0].error, outcomes[1].error);
    EXPECT_EQ(outcomes[0].error, outcomes[2].error);
    EXPECT_NE(outcomes[0].error, "");
    EXPECT_EQ(outcomes[1].isNested + outcomes[2].isNested, 1); // only who was first
  }
}

TEST(Peers, ACycleOverProcessesIsFound) {
  const auto outcomes = liveAll([&](uint32_t rank, Supervisor &supervisor, Peers &peers) {
    run(rank, supervisor, peers, [&] {
      waitInVain(rank, supervisor, rank == 0 ? 2 : 1, rank == 0 ? 2 : rank == 1 ? 2 : 1);
    });
  });
  for (const Outcome &outcome : outcomes)
    EXPECT_EQ(
        outcome.error,
        "schedule three, device 1, send_activation(1, 0), row 1, step 0: no progress for 200 ms\n"
        "  device 0 at recv_gradient(0, 0), row 2, step 0, waits for recv_gradient(0, 0) with device 2\n"
        "  device 1 at send_activation(1, 0), row 1, step 0, waits for send_activation(1, 0) with device 2\n"
        "  device 2 at send_activation(2, 0), row 1, step 0, waits for send_activation(2, 0) with device 1\n"
        "  cycle: device 1 -> 2 -> 1");
}

TEST(Peers, ABusyWorkerKeepsTheOthersWaiting) {
  const auto outcomes = liveAll([&](uint32_t rank, Supervisor &supervisor, Peers &peers) {
    std::atomic<bool> ready = false;
    std::thread later;
    run(rank, supervisor, peers, [&] {
      supervisor.reach(rank, 0, 1);
      if (rank == 2)
        return std::this_thread::sleep_for(900ms); // a long callback
      later = std::thread([&] {
        std::this_thread::sleep_for(850ms);
        ready.store(true);
      });
      supervisor.beginWait(rank, 1, 2);
      EXPECT_TRUE(supervisor.waiter(rank).poll([&] { return ready.load(); }));
      supervisor.endWait(rank);
    });
    if (later.joinable())
      later.join();
  });
  for (const Outcome &outcome : outcomes)
    EXPECT_EQ(outcome.problem + outcome.error, "");
}

TEST(Peers, WhoEndsEarlyIsNamed) {
  const auto outcomes = liveAll([&](uint32_t rank, Supervisor &supervisor, Peers &peers) {
    run(rank, supervisor, peers, [] {});
    if (rank != 1)
      run(rank, supervisor, peers, [&] { waitInVain(rank, supervisor, 2, 1); });
  });
  EXPECT_EQ(outcomes[1].error, "");
  for (uint32_t rank : {0u, 2u}) {
    EXPECT_NE(outcomes[rank].error.find("has ended its executor before this run"), std::string::npos)
        << outcomes[rank].error;
    EXPECT_NE(outcomes[rank].error.find("device 1, forward(1, 0)"), std::string::npos);
  }
}

TEST(Peers, OtherSchedulesAndStrangersAreTurnedAway) {
  const auto outcomes = liveAll([](uint32_t, Supervisor &, Peers &) {}, {"abc", "abc", "xyz"});
  EXPECT_EQ(outcomes[0].problem, "process 2 runs another schedule than process 0: digest xyz instead of abc");
  EXPECT_EQ(outcomes[2].problem, "process 0 runs another schedule than this one");

  // Somebody who connects first and says something else.
  Introduction first(0, 2, "abc"), second(1, 2, "abc");
  const std::string invitation = first.invite();
  const size_t at = invitation.find(' ') + 1;
  const auto port = static_cast<uint16_t>(std::stoul(invitation.substr(at)));
  Descriptor stranger = connectTo("127.0.0.1", port, 1s);
  ASSERT_TRUE(static_cast<bool>(stranger));
  ASSERT_EQ(::send(stranger.get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
  auto joined = std::async(std::launch::async, [&] { return second.join(invitation, 8s); });
  EXPECT_EQ(first.admit(8s), "");
  EXPECT_EQ(joined.get(), "");
}

TEST(Peers, NobodyThereIsAnError) {
  Introduction first(0, 3, "abc");
  const std::string invitation = first.invite();
  EXPECT_EQ(first.admit(50ms), "no control connection from process 1, process 2");
  Introduction second(1, 3, "abc");
  EXPECT_NE(second.join(invitation, 50ms).find("process 0 cannot be reached on port "), std::string::npos);
}
