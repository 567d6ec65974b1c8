// What the processes of the tests over MPI share: how a run is made to fail, and how its end is printed so
// that a script can read it from the mixed output of all processes.
#pragma once

#include "InMemory.h"
#include "Schedules.h"
#include "TokenStage.h"

#include <sluice/Mpi.h>

#include <csignal>
#include <cstdio>
#include <ctime>

namespace sluice::test {

/// Seconds of the clock that all processes of a host share.
inline double now() {
  timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// A line of this process in the folder of the test; a line break in `text` becomes ` | `.
inline void say(int rank, const char *what, const std::string &text) {
  std::string line = "@" + std::to_string(rank) + " " + std::to_string(now()) + " " + what + " ";
  for (char c : text)
    line += c == '\n' ? std::string(" | ") : std::string(1, c);
  line += '\n';
  // Not through mpirun, which loses output of processes that it ends.
  const char *folder = std::getenv("SLUICE_TEST_LOG");
  const std::string path =
      folder == nullptr ? "/dev/stdout" : std::string(folder) + "/" + std::to_string(rank);
  if (std::FILE *file = std::fopen(path.c_str(), "a")) {
    std::fwrite(line.data(), 1, line.size(), file);
    std::fclose(file);
  }
}

enum class Accident { None, Throw, Kill, Stop };

/// An observer that has an accident at one row of one worker.
class Unlucky {
public:
  Unlucky() = default;
  Unlucky(Accident accident, uint32_t worker, uint32_t index, uint64_t step)
      : accident(accident), worker(worker), index(index), step(step) {}
  void onBegin(const runtime::Context &c) const {
    if (c.device != worker || c.index != index || c.step != step)
      return;
    if (accident == Accident::Throw)
      throw std::runtime_error("no more memory");
    if (accident == Accident::None)
      return;
    say(static_cast<int>(c.device), "accident", "");
    raise(accident == Accident::Kill ? SIGKILL : SIGSTOP);
  }
  void onEnd(const runtime::Context &) const {}

private:
  Accident accident = Accident::None;
  uint32_t worker = 0, index = 0;
  uint64_t step = 0;
};

/// Says `known` as soon as a failure is, even while the worker is still busy.
template <class Transport, class ScheduleType>
auto makeMpiExecutor(const ScheduleType &schedule, runtime::Options options = {}, Unlucky observer = {}) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return std::make_unique<runtime::Executor<TokenStage<true>, ScheduleType, Transport, Unlucky>>(
      schedule, TokenStages<true>(schedule), options,
      Transport(MPI_COMM_WORLD,
                [rank](const runtime::ExecutionError &error) { say(rank, "known", error.what()); }),
      observer);
}

} // namespace sluice::test
