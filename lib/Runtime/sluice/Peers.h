// The processes of one run and what they tell each other beside their messages: where each worker stands,
// who is lost, and what ended the run. A process has one worker, of the same number. All are connected with
// process 0, which decides; so all throw the same report.
//
// A thread in every process watches its connections. It says where the worker stands at least every 100 ms;
// a process that ends, however it ends, is noticed at once, since the kernel closes its connection; one from
// which nothing is heard for the no-progress limit is taken for lost too (stopped, or its host is gone).
#pragma once

#include "Socket.h"
#include "Supervisor.h"

#include <random>

namespace sluice::runtime {

class Peers final : public Processes {
  using Clock = Supervisor::Clock;

public:
  Peers(uint32_t rank, uint32_t count, std::string digest)
      : rank(rank), count(count), digest(std::move(digest)), others(rank == 0 ? count : 1),
        wakeUp(makePipe()) {}
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

  // Connecting. Process 0 calls `invite` and passes the text to all others by any means; then it calls
  // `admit` while they call `join`. Each returns what went wrong, or nothing.

  std::string invite() {
    uint16_t port = 0;
    listener = listenAnywhere(port);
    nonce = (uint64_t{std::random_device()()} << 32) | std::random_device()();
    std::string text = std::to_string(nonce) + ' ' + std::to_string(port);
    for (const std::string &address : addressesOfHost())
      text += ' ' + address;
    return text;
  }

  std::string admit(std::chrono::milliseconds limit) {
    const Clock::time_point end = Clock::now() + limit;
    std::string problem;
    for (uint32_t left = count - 1; left > 0;) {
      const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
      pollfd entry{listener.get(), POLLIN, 0};
      if (time <= 0)
        return "no control connection from" + missing();
      if (::poll(&entry, 1, static_cast<int>(time)) != 1)
        continue;
      Connection connection(Descriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
      Connection::Frame frame;
      Hello hello;
      if (!connection.isOpen() || !connection.await(frame, Clock::now() + std::chrono::seconds(1)) ||
          !read(frame, hello) || hello.nonce != nonce || hello.rank == 0 || hello.rank >= count)
        continue; // somebody else
      const bool fits = digest == hello.digest;
      if (!fits)
        problem = "process " + std::to_string(hello.rank) + " runs another schedule than process 0: digest " +
                  hello.digest + " instead of " + digest;
      tell(connection, fits ? Welcome : OtherSchedule, makeHello());
      left -= !others[hello.rank].connection.isOpen(); // one that has lost patience comes again
      others[hello.rank] = {std::move(connection), hello, {}};
    }
    listener = Descriptor();
    return problem;
  }

  std::string join(const std::string &invitation, std::chrono::milliseconds limit) {
    const Clock::time_point end = Clock::now() + limit;
    std::vector<std::string> words;
    for (size_t at = 0; at < invitation.size();) {
      const size_t next = std::min(invitation.find(' ', at), invitation.size());
      words.push_back(invitation.substr(at, next - at));
      at = next + 1;
    }
    nonce = std::stoull(words.at(0));
    const uint16_t port = static_cast<uint16_t>(std::stoul(words.at(1)));
    do {
      for (size_t i = 2; i < words.size(); ++i) {
        Descriptor socket = connectTo(words[i], port, std::chrono::seconds(1));
        if (!socket)
          continue;
        Connection connection(std::move(socket));
        tell(connection, Welcome, makeHello());
        Connection::Frame frame;
        Hello hello;
        if (!connection.await(frame, Clock::now() + std::chrono::seconds(2)) || !read(frame, hello) ||
            hello.nonce != nonce)
          continue;
        others[0] = {std::move(connection), hello, {}};
        return frame.kind == Welcome ? "" : "process 0 runs another schedule than this one";
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } while (Clock::now() < end);
    std::string problem =
        "process 0 cannot be reached on port " + words[1] + " under any address of its host:";
    for (size_t i = 2; i < words.size(); ++i)
      problem += ' ' + words[i];
    return problem;
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

  enum Kind : uint32_t {
    Welcome,       ///< Hello.
    OtherSchedule, ///< Hello.
    Here,          ///< Standing: the sender lives, and this is where its worker stands.
    Ask,           ///< A Here is wanted at once.
    Failed,        ///< Verdict, to process 0.
    Decided,       ///< Verdict, to all.
    Heard,         ///< Of Decided.
    Ended,         ///< Number of the run that all have finished.
    Bye,           ///< The sender's executor has come to its end.
  };
  struct Hello {
    uint64_t nonce = 0;
    uint32_t rank = 0, pid = 0;
    char host[64] = "", digest[64] = "";
  };
  struct Place { // what a Verdict begins with
    uint32_t worker, index;
    uint64_t step;
  };
  struct Other {
    Connection connection;
    Hello hello;
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

  // Frames.

  template <class Value> static void tell(Connection &connection, Kind kind, const Value &value) {
    if (connection.isOpen())
      connection.put(kind, &value, sizeof value);
  }
  static void tell(Connection &connection, Kind kind, const Verdict &verdict) {
    const Place place{verdict.worker, verdict.index, verdict.step};
    std::string bytes(reinterpret_cast<const char *>(&place), sizeof place);
    bytes += verdict.reason;
    if (connection.isOpen())
      connection.put(kind, bytes.data(), bytes.size());
  }
  template <class Value> static bool read(const Connection::Frame &frame, Value &value) {
    if (frame.bytes.size() != sizeof value)
      return false;
    std::memcpy(&value, frame.bytes.data(), sizeof value);
    return true;
  }
  bool isPlace(uint32_t worker, uint32_t index) const {
    return worker < count && index < supervisor->words().rowsOf(worker).size();
  }
  bool read(const Connection::Frame &frame, Verdict &verdict) const {
    Place place;
    if (frame.bytes.size() < sizeof place)
      return false;
    std::memcpy(&place, frame.bytes.data(), sizeof place);
    verdict = {place.worker, place.index, place.step, frame.bytes.substr(sizeof place)};
    return isPlace(place.worker, place.index);
  }

  Hello makeHello() const {
    Hello hello;
    hello.nonce = nonce;
    hello.rank = rank;
    hello.pid = static_cast<uint32_t>(::getpid());
    ::gethostname(hello.host, sizeof hello.host - 1);
    digest.copy(hello.digest, sizeof hello.digest - 1);
    return hello;
  }
  std::string missing() const {
    std::string text;
    for (uint32_t other = 1; other < count; ++other)
      if (!others[other].connection.isOpen())
        text += (text.empty() ? " process " : ", ") + std::to_string(other);
    return text;
  }

  // The watching thread.

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
        tellAll(Here, supervisor->standing(rank));
      } else if (rank != 0 && supervisor->standing(rank).finished) {
        tellFinished();
      }
      if (rank == 0)
        conclude();
      else if (others[0].hasLeft && supervisor->run() > ended.load())
        lose(0, nameOf(others[0]) + " has ended its executor before this run");
    }
    tellAll(Bye, rank);
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

  template <class Value> void tellAll(Kind kind, const Value &value) {
    for (Other &other : others) {
      if (kind == Here && other.connection.backlog() > 4096)
        continue; // it does not read; all it misses is a beat
      tell(other.connection, kind, value);
    }
  }
  void tellFinished() {
    if (toldFinished == supervisor->run())
      return;
    toldFinished = supervisor->run();
    tellAll(Here, supervisor->standing(rank));
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
        tell(others[0].connection, Failed, verdict);
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
    switch (frame.kind) {
    case Here:
      if (read(frame, standing) && isPlace(from, standing.index) && standing.peer < count &&
          (!standing.waits() || isPlace(from, standing.waitsFor))) {
        supervisor->place(from, standing);
        other.isHeard = true;
        other.lastPlaced = Clock::now();
      }
      return;
    case Ask:
      tell(other.connection, Here, supervisor->standing(rank));
      return;
    case Failed:
      if (read(frame, verdict))
        decide(verdict);
      return;
    case Decided:
      if (!read(frame, verdict))
        return;
      supervisor->decide(verdict);
      tell(other.connection, Heard, rank);
      isSettled.store(true);
      return;
    case Heard:
      other.knowsVerdict = true;
      return;
    case Ended:
      if (read(frame, number))
        ended.store(number);
      return;
    case Bye:
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
      tellAll(Ask, rank);
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
    tellAll(Ended, run);
    ended.store(run);
  }

  void decide(const Verdict &verdict) {
    if (supervisor->isDecided())
      return;
    supervisor->decide(verdict);
    decisionTime = Clock::now();
    if (rank == 0)
      tellAll(Decided, verdict);
    else
      isSettled.store(true);
  }

  const uint32_t rank, count;
  const std::string digest;
  uint64_t nonce = 0;
  Descriptor listener;
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
