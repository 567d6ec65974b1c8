// The transport between devices that are processes of an MPI program, on one or several hosts: rank =
// replica × devices + device. Sends are synchronous (MPI_Issend), so a send ends when its receive has
// started: rendezvous. `Mpi<Boundary, ChannelModel::unbounded>` sends copies instead, and never waits.
//
// MPI may be called by one thread at a time (MPI_THREAD_SERIALIZED); in a run that is the worker's. Messages
// travel in a communicator of their own, one tag a channel between two ranks. What is moved are the bytes of
// a boundary, see BytesOf: on the receiving side `shape(c, boundary)` has to set their number.
//
// Failure is no matter of MPI, which would wait for ever or end the program: see Peers.h.
#pragma once

#include "Context.h"
#include "Peers.h"

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1 // Open MPI's header would ask for the C++ bindings that it no longer has
#endif
#include <mpi.h>

#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <map>
#include <memory>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>

namespace sluice::runtime {

/// A row of elements in memory, such as `std::vector<float>`.
template <class Boundary>
constexpr bool isPlainRow = [] {
  if constexpr (std::ranges::contiguous_range<Boundary> && std::ranges::sized_range<Boundary>) {
    using Element = std::ranges::range_value_t<Boundary>;
    return std::is_trivially_copyable_v<Element> && !std::is_pointer_v<Element>;
  } else {
    return false;
  }
}();

/// The bytes of a boundary that are moved: `std::span<std::byte> bytes(Boundary &)` beside the type, else the
/// elements of a vector or the like, else all of what is trivially copyable. Specialise it where none fits.
template <class Boundary> struct BytesOf {
  static std::span<std::byte> of(Boundary &boundary) {
    if constexpr (requires { bytes(boundary); }) {
      return bytes(boundary);
    } else if constexpr (isPlainRow<Boundary>) {
      return std::as_writable_bytes(std::span(std::ranges::data(boundary), std::ranges::size(boundary)));
    } else {
      static_assert(
          std::is_trivially_copyable_v<Boundary> && !std::is_pointer_v<Boundary>,
          "Mpi needs to know the bytes of a boundary: declare `std::span<std::byte> "
          "bytes(Boundary &)` in the namespace of the type, or specialise sluice::runtime::BytesOf");
      return std::as_writable_bytes(std::span(&boundary, 1));
    }
  }
};

/// MPI from here to the end of a scope, for main.
class MpiProcess {
public:
  MpiProcess(int &argc, char **&argv) {
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  }
  MpiProcess(const MpiProcess &) = delete;
  MpiProcess &operator=(const MpiProcess &) = delete;
  ~MpiProcess() { MPI_Finalize(); }
  int rank() const { return rank_; }
  /// Ends this process, after a failure in which MPI_Finalize would wait for processes that are no more. It
  /// waits a little before: Open MPI's mpirun gives the others a second once one process has ended badly, and
  /// none once two have; so all can say what they have to.
  [[noreturn]] static void abandon(int status) {
    std::fflush(nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::_Exit(status);
  }

private:
  int rank_ = 0;
};

template <class Boundary, ChannelModel model = ChannelModel::rendezvous> class Mpi {
  static_assert(model == ChannelModel::rendezvous || model == ChannelModel::unbounded,
                "Mpi sends synchronously (rendezvous) or copies (unbounded)");

public:
  static constexpr ChannelModel channelModel = model;

  /// Its place among the open ones of this process.
  struct Request {
    uint32_t number = 0;
  };

  /// `onFailure`: see Peers.
  explicit Mpi(MPI_Comm among = MPI_COMM_WORLD, Peers::OnFailure onFailure = {})
      : parent(among), onFailure(std::move(onFailure)) {}
  Mpi(Mpi &&other) noexcept
      : parent(other.parent), communicator(std::exchange(other.communicator, MPI_COMM_NULL)),
        tags(std::move(other.tags)), entries(std::move(other.entries)), free(std::move(other.free)),
        copies(std::move(other.copies)), onFailure(std::move(other.onFailure)), supervisor(other.supervisor),
        peers(std::move(other.peers)) {}
  Mpi &operator=(Mpi &&) = delete;
  ~Mpi() {
    int isOver = 0;
    if (communicator == MPI_COMM_NULL || MPI_Finalized(&isOver) != MPI_SUCCESS || isOver)
      return;
    if (supervisor->stopping())
      return; // what is open stays so: others may be gone
    for (Copy &copy : copies)
      MPI_Wait(&copy.request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&communicator);
  }

  bool isLocal(uint32_t worker) const {
    int rank = 0;
    MPI_Comm_rank(parent, &rank);
    return worker == static_cast<uint32_t>(rank);
  }

  /// Called by all processes. Throws in all of them if they do not fit each other.
  void open(const Network &network, Supervisor &of) {
    supervisor = &of;
    int provided = 0, rank = 0, size = 0;
    MPI_Query_thread(&provided);
    if (provided < MPI_THREAD_SERIALIZED)
      throw std::runtime_error("MPI was not started for several threads: call MPI_Init_thread with "
                               "MPI_THREAD_SERIALIZED, or make an MpiProcess");
    MPI_Comm_rank(parent, &rank);
    MPI_Comm_size(parent, &size);
    if (static_cast<uint32_t>(size) != network.workers)
      throw std::runtime_error("the schedule has " + std::to_string(network.workers) +
                               " workers (devices × replicas) and MPI " + std::to_string(size) +
                               " processes: start it with mpirun -n " + std::to_string(network.workers));
    MPI_Comm_dup(parent, &communicator);
    MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
    assignTags(network, static_cast<uint32_t>(rank));
    peers = std::make_unique<Peers>(static_cast<uint32_t>(rank), network.workers,
                                    meet(rank, size, of.words().digest()), onFailure);
    peers->start(of);
  }

  Request startSend(const Message &message, Boundary &boundary) {
    const std::span<std::byte> content = BytesOf<Boundary>::of(boundary);
    const int count = countOf(content, message);
    if constexpr (model == ChannelModel::unbounded) {
      Copy &copy = freeCopy();
      copy.bytes.assign(content.begin(), content.end());
      require(MPI_Isend(copy.bytes.data(), count, MPI_BYTE, static_cast<int>(message.to),
                        tags[message.channel], communicator, &copy.request),
              message);
      return {done};
    } else {
      const Request request = newEntry(message, content);
      require(MPI_Issend(content.data(), count, MPI_BYTE, static_cast<int>(message.to), tags[message.channel],
                         communicator, &entries[request.number].request),
              message);
      return request;
    }
  }

  Request startReceive(const Message &message, Boundary &boundary) {
    const std::span<std::byte> content = BytesOf<Boundary>::of(boundary);
    const Request request = newEntry(message, content);
    require(MPI_Irecv(content.data(), countOf(content, message), MPI_BYTE, static_cast<int>(message.from),
                      tags[message.channel], communicator, &entries[request.number].request),
            message);
    return request;
  }

  /// False: the run is being stopped. Throws where the message has another size than the boundary.
  bool wait(const Request &request, Waiter &waiter) {
    if (request.number == done)
      return true;
    Entry &entry = entries[request.number];
    MPI_Status status;
    const bool isDone = waiter.poll([&] {
      int flag = 0;
      const int result = MPI_Test(&entry.request, &flag, &status);
      if (result != MPI_SUCCESS)
        explain(result, entry, waiter);
      return flag != 0;
    });
    if (!isDone)
      return false;
    free.push_back(request.number);
    int count = 0;
    if (entry.isReceive && MPI_Get_count(&status, MPI_BYTE, &count) == MPI_SUCCESS &&
        static_cast<size_t>(count) != entry.size)
      throw std::runtime_error(wrongSize(entry, std::to_string(count)));
    return true;
  }

  /// The worker of this process has ended; ends when all have. Called by the executor.
  void finishRun() {
    peers->finishRun([&] {
      int flag = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator, &flag, MPI_STATUS_IGNORE);
    });
    if (supervisor->stopping())
      withdraw();
  }

private:
  static constexpr uint32_t done = ~0u;

  struct Entry {
    MPI_Request request = MPI_REQUEST_NULL;
    Message message{};
    size_t size = 0;
    bool isReceive = false;
  };
  struct Copy {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  // Channels of two ranks are told apart by tags; the same numbers serve every pair.
  void assignTags(const Network &network, uint32_t rank) {
    void *value = nullptr;
    int isSet = 0;
    MPI_Comm_get_attr(communicator, MPI_TAG_UB, &value, &isSet);
    const int64_t most = isSet ? *static_cast<int *>(value) : 32767;
    std::map<std::pair<uint32_t, uint32_t>, int64_t> used;
    uint32_t atOnce = 0;
    for (const Line &line : network.lines) {
      int64_t &number = used[{line.from, line.to}];
      if (number > most)
        throw std::runtime_error(
            "workers " + std::to_string(line.from) + " and " + std::to_string(line.to) + " have more than " +
            std::to_string(most + 1) +
            " channels, and this MPI no more tags: choose a channel_key of fewer channels");
      tags.push_back(static_cast<int>(number++));
      atOnce += (line.from == rank ? line.sends : 0) + (line.to == rank ? line.receives : 0);
    }
    entries.resize(atOnce);
    for (uint32_t number = atOnce; number > 0; --number)
      free.push_back(number - 1);
  }

  // Connects process 0 with all others, and makes a problem of one a problem of all.
  Introduction meet(int rank, int size, const std::string &digest) const {
    Introduction introduction(static_cast<uint32_t>(rank), static_cast<uint32_t>(size), digest);
    const std::chrono::milliseconds limit(15'000);
    std::string invitation = rank == 0 ? introduction.invite() : std::string();
    uint64_t length = invitation.size();
    MPI_Bcast(&length, 1, MPI_UINT64_T, 0, communicator);
    invitation.resize(length);
    MPI_Bcast(invitation.data(), static_cast<int>(length), MPI_CHAR, 0, communicator);
    std::string problem = size == 1   ? ""
                          : rank == 0 ? introduction.admit(limit)
                                      : introduction.join(invitation, limit);
    int isBad = !problem.empty(), anyBad = 0;
    MPI_Allreduce(&isBad, &anyBad, 1, MPI_INT, MPI_MAX, communicator);
    if (anyBad)
      throw std::runtime_error("the processes of this run cannot connect: " +
                               (isBad ? problem : "another process says why"));
    return introduction;
  }

  Request newEntry(const Message &message, std::span<std::byte> content) {
    if (free.empty()) { // more than the network said
      free.push_back(static_cast<uint32_t>(entries.size()));
      entries.emplace_back();
    }
    const uint32_t number = free.back();
    free.pop_back();
    entries[number] = {MPI_REQUEST_NULL, message, content.size(), isReceive(message)};
    return {number};
  }
  bool isReceive(const Message &message) const { return isLocal(message.to); }

  Copy &freeCopy() {
    int flag = 0;
    if (!copies.empty())
      MPI_Test(&copies.front().request, &flag, MPI_STATUS_IGNORE);
    if (!flag)
      return copies.emplace_back();
    copies.splice(copies.end(), copies, copies.begin());
    return copies.back();
  }

  // After a failure: buffers are about to go, and MPI shall not write into them. Sends only read; nobody can
  // take them back.
  void withdraw() {
    for (Entry &entry : entries)
      if (entry.isReceive && entry.request != MPI_REQUEST_NULL) {
        int flag = 0;
        MPI_Cancel(&entry.request);
        MPI_Test(&entry.request, &flag, MPI_STATUS_IGNORE);
      }
  }

  // Words.

  std::string nameOf(const Message &message) const {
    const bool receives = isReceive(message);
    return std::string(name(message.op)) + "(" + std::to_string(message.stage) +
           (message.microbatch == noMicrobatch ? "" : ", " + std::to_string(message.microbatch)) +
           ") of step " + std::to_string(message.step) + (receives ? " from rank " : " to rank ") +
           std::to_string(receives ? message.from : message.to);
  }
  int countOf(std::span<std::byte> content, const Message &message) const {
    if (content.size() > INT_MAX)
      throw std::runtime_error(nameOf(message) + ": a boundary of " + std::to_string(content.size()) +
                               " bytes, and MPI counts to " + std::to_string(INT_MAX));
    return static_cast<int>(content.size());
  }
  std::string wrongSize(const Entry &entry, const std::string &found) const {
    return nameOf(entry.message) + ": " + found + " bytes have come for a boundary of " +
           std::to_string(entry.size) +
           "; give the stage a callback shape(c, boundary) that sizes it before the receive";
  }
  void require(int result, const Message &message) const {
    if (result != MPI_SUCCESS)
      throw std::runtime_error(nameOf(message) + ": " + textOf(result));
  }
  static std::string textOf(int result) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(result, text, &length);
    return std::string(text, static_cast<size_t>(length));
  }
  // A message that fails because its other end is gone is a consequence: that loss is about to be known.
  void explain(int result, const Entry &entry, Waiter &waiter) const {
    int kind = 0;
    MPI_Error_class(result, &kind);
    if (kind == MPI_ERR_TRUNCATE)
      throw std::runtime_error(wrongSize(entry, "more"));
    const auto end = Supervisor::Clock::now() + std::chrono::seconds(1);
    waiter.poll([&] { return Supervisor::Clock::now() > end; });
    throw std::runtime_error(nameOf(entry.message) + ": " + textOf(result));
  }

  MPI_Comm parent, communicator = MPI_COMM_NULL;
  std::vector<int> tags; // by channel
  std::vector<Entry> entries;
  std::vector<uint32_t> free; // of entries
  std::list<Copy> copies;     // of sends that need not wait, the oldest first
  Peers::OnFailure onFailure;
  Supervisor *supervisor = nullptr;
  std::unique_ptr<Peers> peers;
};

} // namespace sluice::runtime
