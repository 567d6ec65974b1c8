// How the processes of one run find each other: process 0 invites, the others come with a TCP connection
// each. Also what they send over it: frames of plain numbers, since all run the same program.
#pragma once

#include "Report.h"
#include "Socket.h"

#include <random>
#include <thread>

namespace sluice::runtime {

enum class FrameKind : uint32_t {
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

/// Who is at the other end.
struct Hello {
  uint64_t nonce = 0; ///< Of the run, so that strangers are told apart.
  uint32_t rank = 0, pid = 0;
  char host[64] = "", digest[64] = "";
};

/// A process this one is connected with.
struct Peer {
  Connection connection;
  Hello hello;
};

template <class Value> void tell(Connection &connection, FrameKind kind, const Value &value) {
  if (connection.isOpen())
    connection.put(static_cast<uint32_t>(kind), &value, sizeof value);
}
template <class Value> bool read(const Connection::Frame &frame, Value &value) {
  if (frame.bytes.size() != sizeof value)
    return false;
  std::memcpy(&value, frame.bytes.data(), sizeof value);
  return true;
}

/// A verdict travels as its numbers, then its text.
struct VerdictPlace {
  uint32_t worker, index;
  uint64_t step;
};
inline void tell(Connection &connection, FrameKind kind, const Verdict &verdict) {
  const VerdictPlace place{verdict.worker, verdict.index, verdict.step};
  std::string bytes(reinterpret_cast<const char *>(&place), sizeof place);
  bytes += verdict.reason;
  if (connection.isOpen())
    connection.put(static_cast<uint32_t>(kind), bytes.data(), bytes.size());
}
inline bool read(const Connection::Frame &frame, Verdict &verdict) {
  VerdictPlace place;
  if (frame.bytes.size() < sizeof place)
    return false;
  std::memcpy(&place, frame.bytes.data(), sizeof place);
  verdict = {place.worker, place.index, place.step, frame.bytes.substr(sizeof place)};
  return true;
}

/// Process 0 calls `invite` and passes the text to all others by any means; then it calls `admit` while they
/// call `join`. Each returns what went wrong, or nothing.
class Introduction {
  using Clock = std::chrono::steady_clock;

public:
  /// `digest`: of the schedule, which must be the same everywhere.
  Introduction(uint32_t rank, uint32_t count, std::string digest)
      : rank(rank), count(count), digest(std::move(digest)), peers_(rank == 0 ? count : 1) {}

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
      tell(connection, fits ? FrameKind::Welcome : FrameKind::OtherSchedule, makeHello());
      left -= !peers_[hello.rank].connection.isOpen(); // one that has lost patience comes again
      peers_[hello.rank] = {std::move(connection), hello};
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
        tell(connection, FrameKind::Welcome, makeHello());
        Connection::Frame frame;
        Hello hello;
        if (!connection.await(frame, Clock::now() + std::chrono::seconds(2)) || !read(frame, hello) ||
            hello.nonce != nonce)
          continue;
        peers_[0] = {std::move(connection), hello};
        return frame.kind == static_cast<uint32_t>(FrameKind::Welcome)
                   ? ""
                   : "process 0 runs another schedule than this one";
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } while (Clock::now() < end);
    std::string problem =
        "process 0 cannot be reached on port " + words[1] + " under any address of its host:";
    for (size_t i = 2; i < words.size(); ++i)
      problem += ' ' + words[i];
    return problem;
  }

  /// In process 0 by rank, its own place empty; in the others process 0 alone.
  std::vector<Peer> peers() && { return std::move(peers_); }

private:
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
      if (!peers_[other].connection.isOpen())
        text += (text.empty() ? " process " : ", ") + std::to_string(other);
    return text;
  }

  const uint32_t rank, count;
  const std::string digest;
  uint64_t nonce = 0;
  Descriptor listener;
  std::vector<Peer> peers_;
};

} // namespace sluice::runtime
