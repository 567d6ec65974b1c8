#include "Progress.h"

#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>
#include <system_error>

namespace sluice::tool {

using Clock = std::chrono::steady_clock;

Progress::Progress() {
  if (!llvm::sys::Process::StandardErrIsDisplayed())
    return;
  try {
    writer = std::thread([this] { write(); });
  } catch (const std::system_error &) {
    // The system gives no thread; the work goes on without a word.
  }
}

void Progress::step(std::string now) {
  std::lock_guard lock(mutex);
  words = std::move(now);
}

void Progress::count(size_t done, size_t total, const char *what) {
  if (writer.joinable())
    step(fmt::format("{} of {} settings {}", done, total, what));
}

void Progress::write() {
  const Clock::time_point begin = Clock::now();
  std::string shown;
  std::unique_lock lock(mutex);
  std::chrono::milliseconds wait(1000);
  while (!changed.wait_for(lock, wait, [&] { return isDone; })) {
    wait = std::chrono::milliseconds(200);
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin).count();
    std::string line = fmt::format("{}{}{} s", words, words.empty() ? "" : ", ", seconds);
    if (line == shown)
      continue;
    llvm::errs() << "\r\033[K" << line;
    shown = std::move(line);
  }
  if (!shown.empty())
    llvm::errs() << "\r\033[K";
}

void Progress::finish() {
  if (!writer.joinable())
    return;
  {
    std::lock_guard lock(mutex);
    isDone = true;
  }
  changed.notify_all();
  writer.join();
}

} // namespace sluice::tool
