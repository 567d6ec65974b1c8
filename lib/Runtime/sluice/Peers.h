// The processes of one run and what they tell each other beside their messages: where each worker stands,
// who is lost, and what ended the run. A process has one worker, of the same number. All are connected with
// process 0, which decides; so all throw the same report.
//
// A thread in every process watches its connections. It says where the worker stands at least every 100 ms;
// a process that ends, however it ends, is noticed at once, since the kernel closes its connection; one from
// which nothing is heard for the no-progress limit is taken for lost too (stopped, or its host is gone).
#pragma once

#include "Introduction.h"
#include "Supervisor.h"

#include <cstdio>
#include <functional>

namespace sluice::runtime {

class Peers final : public Processes {
  using Clock = Supervisor::Clock;

public:
  /// Is told of a failure, once in every process.
  using OnFailure = std::function<void(const ExecutionError &)>;

  /// `onFailure` runs on the thread that watches, as soon as the failure is known; the worker may still be
  /// busy in a callback then. Without one, process 0 prints the report (if it is lost, process 1).
  Peers(uint32_t rank, uint32_t count, Introduction met, OnFailure onFailure)
      : rank(rank), count(count), onFailure(std::move(onFailure)), wakeUp(makePipe()) {
    for (Peer &peer : std::move(met).peers())
      others.push_back({std::move(peer)});
  }
  Peers(const Peers &) = delete;
  Peers &operator=(const Peers &) = delete;
  /// Says good-bye, so that the others do not take this process for lost.
  ~Peers() {
    if (watcher.joinable()) {
      leaving.store(true);
      wake();
      watcher.join();
    }
  }

  /// From here on this process hears and is heard. The supervisor outlives this object.
  void start(Supervisor &of) {
    supervisor = &of;
    supervisor->join(*this, [this](uint32_t worker) { return worker == rank; });
    for (Other &other : others)
      other.lastPlaced = Clock::now();
    watcher = std::thread([this] { watch(); });
  }

  /// Waits until the workers of all processes have finished this run, or all know why not. `progress()` is
  /// called now and then meanwhile, for messages that others still wait for.
  template <class Progress> void finishRun(Progress &&progress) {
    wake();
    Clock::time_point end{};
    while (ended.load() < supervisor->run() && !isSettled.load()) {
      progress();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      if (!supervisor->stopping())
        continue;
      const Clock::time_point now = Clock::now();
      if (end == Clock::time_point())
        end = now + settleLimit;
      else if (now > end)
        return; // nobody decides: what this process thinks has to do
    }
  }

  void propose(const Verdict &verdict) override {
    {
      std::lock_guard lock(mutex);
      proposals.push_back(verdict);
    }
    wake();
  }

private:
  static constexpr std::chrono::milliseconds settleLimit{2000}, askLimit{200}, acknowledgeLimit{500},
      shortestSilence{1000};

  struct Other : Peer {
    Clock::duration silent{};
    bool isHeard = false; // since the last look
    Clock::time_point lastPlaced{};
    bool hasLeft = false, knowsVerdict = false;
  };

  static std::pair<Descriptor, Descriptor> makePipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
      throw std::runtime_error(std::string("cannot make a pipe: ") + std::strerror(errno));
    return {Descriptor(ends[0]), Descriptor(ends[1])};
  }
  void wake() {
    const char byte = 0;
    (void)!::write(wakeUp.second.get(), &byte, 1);
  }

  // A worker without rows stands at 0.
  bool isPlace(uint32_t worker, uint32_t index) const {
    return worker < count && (index == 0 || index < supervisor->words().rowsOf(worker).size());
  }

  void watch() {
    const Clock::duration tick = supervisor->patience();
    Clock::time_point last = Clock::now(), next = last;
    while (!leaving.load()) {
      listen(next - Clock::now());
      passProposals();
      for (uint32_t index = firstOther(); index < others.size(); ++index)
        hear(index);
      const Clock::time_point now = Clock::now();
      if (now >= next) {
        countSilence(std::min(now - last, 2 * tick));
        if (rank == 0)
          lookForStuck();
        last = now;
        next = now + tick;
        tellAll(FrameKind::Here, supervisor->standing(rank));
      } else if (rank != 0) {
        tellFinished();
      }
      if (rank == 0)
        conclude();
      else if (others[0].hasLeft && supervisor->run() > ended.load())
        lose(0, nameOf(others[0]) + " has ended its executor before this run");
    }
    tellAll(FrameKind::Bye, rank);
    const Clock::time_point end = Clock::now() + std::chrono::seconds(1);
    for (Other &other : others)
      while (other.connection.isOpen() && other.connection.backlog() > 0 && Clock::now() < end) {
        other.connection.flush();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
  }

  static std::string nameOf(const Other &other) {
    return "its process (" + std::to_string(other.hello.pid) + " on host " + other.hello.host + ")";
  }

  // Process 0 has one entry for each process, its own unused; the others have one, for process 0.
  uint32_t firstOther() const { return rank == 0 ? 1 : 0; }
  uint32_t rankOf(uint32_t index) const { return rank == 0 ? index : 0; }

  // Sleeps until something arrives, something can be sent, or `longest` has passed.
  void listen(Clock::duration longest) {
    entries.clear();
    entries.push_back({wakeUp.first.get(), POLLIN, 0});
    for (const Other &other : others)
      if (other.connection.isOpen())
        entries.push_back({other.connection.descriptor(),
                           static_cast<short>(POLLIN | (other.connection.backlog() > 0 ? POLLOUT : 0)), 0});
    Clock::duration time = longest;
    if (isLossKnown && !supervisor->isDecided())
      time = std::min<Clock::duration>(time, std::chrono::milliseconds(5));
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(time).count();
    ::poll(entries.data(), entries.size(), static_cast<int>(std::max<int64_t>(left, 0)));
    char bytes[64];
    while (::read(wakeUp.first.get(), bytes, sizeof bytes) > 0)
      ;
  }

  template <class Value> void tellAll(FrameKind kind, const Value &value) {
    for (Other &other : others) {
      if (kind == FrameKind::Here && other.connection.backlog() > 4096)
        continue; // it does not read; all it misses is a beat
      tell(other.connection, kind, value);
    }
  }
  void tellFinished() {
    const Standing standing = supervisor->standing(rank);
    if (!standing.finished || toldFinished == standing.run)
      return;
    toldFinished = standing.run;
    tellAll(FrameKind::Here, standing);
  }

  void passProposals() {
    std::vector<Verdict> list;
    {
      std::lock_guard lock(mutex);
      list.swap(proposals);
    }
    for (const Verdict &verdict : list) {
      if (rank == 0)
        decide(verdict);
      else
        tell(others[0].connection, FrameKind::Failed, verdict);
    }
  }

  void hear(uint32_t index) {
    Other &other = others[index];
    if (!other.connection.isOpen())
      return;
    other.connection.flush();
    const bool isThere = other.connection.fill();
    Connection::Frame frame;
    while (other.connection.take(frame)) {
      other.silent = {};
      understand(other, rankOf(index), frame);
    }
    if (isThere)
      return;
    other.connection.close();
    other.knowsVerdict = true; // nothing more can be done for it
    if (!other.hasLeft)
      lose(rankOf(index), nameOf(other) + " has ended without finishing");
  }

  void understand(Other &other, uint32_t from, const Connection::Frame &frame) {
    Standing standing;
    Verdict verdict;
    uint32_t number = 0;
    switch (static_cast<FrameKind>(frame.kind)) {
    case FrameKind::Here:
      if (read(frame, standing) && isPlace(from, standing.index) && standing.peer < count &&
          (!standing.waits() || isPlace(from, standing.waitsFor))) {
        supervisor->place(from, standing);
        other.isHeard = true;
        other.lastPlaced = Clock::now();
      }
      return;
    case FrameKind::Ask:
      tell(other.connection, FrameKind::Here, supervisor->standing(rank));
      return;
    case FrameKind::Failed:
      if (read(frame, verdict) && isPlace(verdict.worker, verdict.index))
        decide(verdict);
      return;
    case FrameKind::Decided:
      if (!read(frame, verdict) || !isPlace(verdict.worker, verdict.index))
        return;
      tell(other.connection, FrameKind::Heard, rank);
      decide(verdict);
      return;
    case FrameKind::Heard:
      other.knowsVerdict = true;
      return;
    case FrameKind::Ended:
      if (read(frame, number))
        ended.store(number);
      return;
    case FrameKind::Bye:
      other.hasLeft = true;
      return;
    default:
      return;
    }
  }

  void countSilence(Clock::duration time) {
    for (uint32_t index = firstOther(); index < others.size(); ++index) {
      Other &other = others[index];
      if (!other.connection.isOpen() || supervisor->progressLimit().count() == 0)
        continue;
      other.silent += time;
      const std::chrono::milliseconds limit = std::max(supervisor->progressLimit(), shortestSilence);
      if (other.silent > limit)
        lose(rankOf(index),
             nameOf(other) + " has not been heard of for " + std::to_string(limit.count()) + " ms");
    }
  }

  Verdict lossOf() const {
    const Other &other = others[rank == 0 ? lost : 0];
    return supervisor->words().lost(
        supervisor->standings(), lost, howLost,
        std::chrono::duration_cast<std::chrono::milliseconds>(lossTime - other.lastPlaced));
  }

  // Process 0 first asks all others where they stand now; without it everybody decides alone.
  void lose(uint32_t worker, const std::string &how) {
    if (isLossKnown || supervisor->isDecided())
      return;
    isLossKnown = true;
    lost = worker;
    howLost = how;
    lossTime = Clock::now();
    if (rank == 0)
      others[worker].knowsVerdict = true; // it will not answer
    for (Other &other : others)
      other.isHeard = false;
    if (rank == 0)
      tellAll(FrameKind::Ask, rank);
    else
      decide(lossOf());
  }

  void lookForStuck() {
    // Standings count once all have been heard again since the last look.
    for (uint32_t other = 1; other < count; ++other)
      if (!others[other].isHeard && others[other].connection.isOpen())
        return;
    for (Other &other : others)
      other.isHeard = false;
    Verdict found;
    if (!isLossKnown && supervisor->findStuck(found))
      decide(found);
  }

  // Process 0: is everything said that ends a run?
  void conclude() {
    if (isLossKnown && !supervisor->isDecided()) {
      bool allHeard = true;
      for (uint32_t other = 1; other < count; ++other)
        allHeard &= others[other].isHeard || !others[other].connection.isOpen();
      if (allHeard || Clock::now() - lossTime > askLimit)
        decide(lossOf());
    }
    if (supervisor->isDecided() && !isSettled.load()) {
      bool allKnow = true;
      for (uint32_t other = 1; other < count; ++other)
        allKnow &= others[other].knowsVerdict || !others[other].connection.isOpen();
      if (allKnow || Clock::now() - decisionTime > acknowledgeLimit)
        isSettled.store(true);
    }
    if (supervisor->isDecided() || isLossKnown)
      return;
    const uint32_t run = supervisor->standing(0).run;
    bool allFinished = ended.load() < run;
    for (uint32_t worker = 0; worker < count && !isLossKnown; ++worker) {
      const Standing standing = supervisor->standing(worker);
      allFinished &= standing.finished && standing.run == run;
      if (worker > 0 && others[worker].hasLeft && run > standing.run)
        lose(worker, nameOf(others[worker]) + " has ended its executor before this run");
    }
    if (!allFinished || isLossKnown)
      return;
    tellAll(FrameKind::Ended, run);
    ended.store(run);
  }

  void decide(const Verdict &verdict) {
    if (supervisor->isDecided())
      return;
    supervisor->decide(verdict);
    announce(verdict);
    decisionTime = Clock::now();
    if (rank == 0)
      tellAll(FrameKind::Decided, verdict);
    else
      isSettled.store(true);
  }

  void announce(const Verdict &verdict) {
    const ExecutionError error = supervisor->words().error(verdict);
    if (onFailure)
      onFailure(error);
    else if (rank == 0 || (rank == 1 && isLossKnown))
      std::fprintf(stderr, "%s\n", error.what());
  }

  const uint32_t rank, count;
  const OnFailure onFailure;
  std::vector<Other> others;
  std::pair<Descriptor, Descriptor> wakeUp; // read end, write end
  Supervisor *supervisor = nullptr;
  std::thread watcher;
  std::atomic<bool> leaving = false, isSettled = false; // settled: the verdict is known to all
  std::atomic<uint32_t> ended = 0;                      // run that all have finished
  std::mutex mutex;                                     // of proposals
  std::vector<Verdict> proposals;

  // Of the watching thread.
  std::vector<pollfd> entries;
  uint32_t toldFinished = 0, lost = 0;
  bool isLossKnown = false;
  std::string howLost;
  Clock::time_point lossTime, decisionTime;
};

} // namespace sluice::runtime
