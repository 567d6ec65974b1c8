// How far a command is: one line of stderr that is written over, from the second second on and only on a
// terminal. A thread of its own writes it, so that a long step shows that time passes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace sluice::tool {

class Progress {
public:
  Progress();
  /// Takes the line away, if there is one.
  ~Progress() { finish(); }
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  /// What is being done: `simulating main`.
  void step(std::string words);
  /// Of many settings: `12 of 40 settings checked`.
  void count(size_t done, size_t total, const char *what);
  /// Nothing is written any more; what the command prints comes after it.
  void finish();

private:
  void write();

  std::mutex mutex;
  std::condition_variable changed;
  std::string words;
  bool isDone = false;
  std::thread writer; ///< None where there is no terminal.
};

} // namespace sluice::tool
